#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo::testing {

inline constexpr int kMostRanks = 16;

/// An element that knows which ranks' inputs it was made of, and whether they were combined in rank order.
struct Origin {
  std::array<std::uint8_t, kMostRanks> counted{};
  std::int16_t first = 0;
  std::int16_t last = 0;
  std::int32_t index = 0;  // of the element; -1: elements of different places were combined
  bool in_order = true;
};

inline Origin origin(int rank, std::size_t index) {
  Origin one;
  one.counted[static_cast<std::size_t>(rank)] = 1;
  one.first = one.last = static_cast<std::int16_t>(rank);
  one.index = static_cast<std::int32_t>(index);
  return one;
}

inline Origin combine(const Origin& a, const Origin& b) {
  Origin both = a;
  for (std::size_t i = 0; i < both.counted.size(); ++i)
    both.counted[i] = static_cast<std::uint8_t>(a.counted[i] + b.counted[i]);
  both.last = b.last;
  both.in_order = a.in_order && b.in_order && a.last + 1 == b.first;
  if (a.index != b.index) both.index = -1;
  return both;
}

struct AnyOrder {
  static constexpr bool commutative = true;
  Origin operator()(const Origin& a, const Origin& b) const { return combine(a, b); }
};
struct RankOrder {
  static constexpr bool commutative = false;
  Origin operator()(const Origin& a, const Origin& b) const { return combine(a, b); }
};

}  // namespace rondo::testing
