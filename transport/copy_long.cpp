#include "transport/copy_long.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

// Sanitizers do not see what assembly touches.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if !defined(__has_feature)
#define RONDO_STRINGS 1
#elif !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && !__has_feature(memory_sanitizer)
#define RONDO_STRINGS 1
#endif
#endif

#ifdef RONDO_STRINGS
#include <cpuid.h>
#endif

namespace rondo::detail {
namespace {

#ifdef RONDO_STRINGS
// Lines are written whole there, without being read first. C libraries of late do without on all of AMD's processors,
// since it is slow where the target follows closely on the source, but for whole pages between; on Intel's they use it.
bool has_quick_strings() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || b != signature_AMD_ebx || d != signature_AMD_edx || c != signature_AMD_ecx)
    return false;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kLeast = 26;
  const unsigned family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
  constexpr unsigned kEnhancedStrings = 1U << 9;
  return family >= kLeast && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kEnhancedStrings) != 0;
}

// Known before the first copy: to ask takes a virtual machine a hundred times as long as a short one.
const bool quick_strings = has_quick_strings();
#endif

}  // namespace

bool copy_string([[maybe_unused]] std::span<const std::byte> from, [[maybe_unused]] std::byte* to) noexcept {
#ifdef RONDO_STRINGS
  if (!quick_strings) return false;
  constexpr std::size_t kLine = 64;
  const std::size_t before = std::min(-reinterpret_cast<std::uintptr_t>(to) % kLine, from.size());
  if (before > 0) std::memcpy(to, from.data(), before);
  const std::byte* source = from.data() + before;
  std::byte* target = to + before;
  std::size_t bytes = from.size() - before;
  asm volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(bytes) : : "memory");
  return true;
#else
  return false;
#endif
}

void copy_long(std::span<const std::byte> from, std::byte* to) noexcept {
  // More may be better written past the caches: C libraries know.
  constexpr std::size_t kMost = std::size_t{16} << 20;
  constexpr std::size_t kPage = 4096, kClose = 512;
  const std::size_t behind =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from.data())) % kPage;
  if (behind < kClose || from.size() > kMost || !copy_string(from, to)) std::memcpy(to, from.data(), from.size());
}

}  // namespace rondo::detail
