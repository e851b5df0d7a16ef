#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "transport/copy_short.hpp"

namespace rondo::detail {

/// How a rank writes bytes that others read, again and again in the same place. Lines that these have in their caches
/// are taken from there before they are written: 0.05 to 0.15 ns a byte between cores that share a cache, 0.6 between
/// others. Stores past the caches wait for none of that, 0.03 ns a byte, but who reads then does so from memory. So
/// such stores are made where the others were found slow. As a host may move a virtual machine's cores at any time,
/// that is found out anew now and then.
class SharedStores {
 public:
  using Now = std::chrono::steady_clock::time_point (*)();
  explicit SharedStores(Now now = [] { return std::chrono::steady_clock::now(); }) : now_(now) {}

  /// Not in place.
  void copy(std::span<const std::byte> from, std::byte* to) noexcept {
    if (from.size() >= kLeast) return copy_and_time(from, to);
    copy_short(from, to);
  }

  /// Whether so many bytes are to be written past the caches now.
  bool past_caches(std::size_t bytes) const noexcept { return past_caches_ > 0 && bytes >= kLeast; }

  static constexpr std::size_t kLeast = 4096;  ///< fewer are always written through the caches
  static constexpr int kCopies = 64;           ///< past the caches until the next one through them

 private:
  void copy_and_time(std::span<const std::byte> from, std::byte* to) noexcept;

  Now now_;
  bool slow_ = false;  ///< the last copy through the caches was
  int past_caches_ = 0;
};

/// Copies by stores that leave no lines in the caches. Others who see what is written later see this, too. Where the
/// processor has no such stores, or none that are used here, it is memcpy.
void store_past_caches(std::span<const std::byte> from, std::byte* to) noexcept;

}  // namespace rondo::detail
