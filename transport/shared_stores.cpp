#include "transport/shared_stores.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace rondo::detail {
namespace {

// A byte's, on average. Of ranks that share cores not all others are slow.
constexpr std::chrono::duration<double, std::nano> kSlow{0.3};

}  // namespace

void SharedStores::copy_and_time(std::span<const std::byte> from, std::byte* to) noexcept {
  if (past_caches(from.size())) {
    --past_caches_;
    return store_past_caches(from, to);
  }
  const auto begin = now_();
  copy_long(from, to);
  const bool slow = now_() - begin > static_cast<double>(from.size()) * kSlow;
  // One alone may have lost its core meanwhile.
  if (std::exchange(slow_, slow) && slow) past_caches_ = kCopies;
}

void store_past_caches(std::span<const std::byte> from, std::byte* to) noexcept {
  std::size_t at = 0;
#if defined(__SSE2__)
  constexpr std::size_t kVector = sizeof(__m128i);
  at = std::min((kVector - reinterpret_cast<std::uintptr_t>(to) % kVector) % kVector, from.size());
  std::memcpy(to, from.data(), at);
  for (; from.size() - at >= kVector; at += kVector) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + at)));
  }
  _mm_sfence();
#endif
  std::memcpy(to + at, from.data() + at, from.size() - at);
}

}  // namespace rondo::detail
