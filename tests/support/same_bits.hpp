#pragma once

#include <cstddef>
#include <cstring>
#include <ranges>
#include <span>

namespace rondo::testing {

/// As many elements with the same bits. (One by one, as vectors compare them, would be most of the time of some tests
/// under a sanitizer.)
template <std::ranges::contiguous_range A, std::ranges::contiguous_range B>
bool same_bits(const A& a, const B& b) {
  const std::span<const std::byte> some = std::as_bytes(std::span(a)), others = std::as_bytes(std::span(b));
  return some.size() == others.size() && (some.empty() || std::memcmp(some.data(), others.data(), some.size()) == 0);
}

}  // namespace rondo::testing
