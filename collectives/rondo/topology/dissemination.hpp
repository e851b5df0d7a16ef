#pragma once

#include <bit>

#include <rondo/topology/ring.hpp>

namespace rondo {

/// Rounds that a doubling pattern takes to reach `size` ranks: ceil(log2 size).
constexpr int doubling_rounds(int size) { return static_cast<int>(std::bit_width(static_cast<unsigned>(size - 1))); }

/// Word of mouth: in round k every rank tells the one 2^k further on.
///
///     who has told rank 0, of 6:   round 0: 5    round 1: 4 (told by 3)    round 2: 2 (told by 1, 0 and 5)
class Dissemination {
 public:
  constexpr Dissemination(int rank, int size) : ring_(rank, size), size_(size) {}

  constexpr int rounds() const { return doubling_rounds(size_); }
  constexpr int to(int round) const { return ring_.around(1 << round); }
  constexpr int from(int round) const { return ring_.around(-(1 << round)); }

 private:
  Ring ring_;
  int size_;
};

}  // namespace rondo
