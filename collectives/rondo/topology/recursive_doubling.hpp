#pragma once

#include <bit>

namespace rondo {

/// Partners that double what they know each round, for any number of ranks. What exceeds a power of two folds first:
/// rank 2i takes in its neighbour 2i + 1, so each participant stands for a run of consecutive ranks, and operators
/// that do not commute see their operands in rank order.
///
///     ranks          0   1   2   3   4   5   6      7 = 4 + 3: three pairs fold
///     fold           0 <-'   2 <-'   4 <-'   6      participants 0 1 2 3
///     round 0        0 <---> 2       4 <---> 6
///     round 1        0 <-----------> 4              and 2 <-----------> 6
///     unfold         0 ->.   2 ->.   4 ->.   6
class RecursiveDoubling {
 public:
  constexpr RecursiveDoubling(int rank, int size)
      : rank_(rank),
        participants_(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))),
        folded_(size - participants_) {}

  constexpr int rounds() const { return static_cast<int>(std::bit_width(static_cast<unsigned>(participants_))) - 1; }
  /// Whether this rank only hands its data to `rank - 1` and gets the result from there.
  constexpr bool is_folded() const { return rank_ < 2 * folded_ && rank_ % 2 == 1; }
  /// Whether this rank takes in `rank + 1`.
  constexpr bool takes_in() const { return rank_ < 2 * folded_ && rank_ % 2 == 0; }

  constexpr int partner(int round) const { return rank_of(participant() ^ (1 << round)); }

 private:
  constexpr int participant() const { return rank_ < 2 * folded_ ? rank_ / 2 : rank_ - folded_; }
  constexpr int rank_of(int participant) const {
    return participant < folded_ ? 2 * participant : participant + folded_;
  }

  int rank_;
  int participants_;
  int folded_;
};

}  // namespace rondo
