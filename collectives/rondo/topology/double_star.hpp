#pragma once

namespace rondo {

/// Two stars with joined centres, of two ranks or more: each half of the ranks, in their order, has its first for a
/// centre. For 7 ranks:
///
///     1 --.       .-- 5
///     2 -- 0 --- 4
///     3 --'       `-- 6
class DoubleStar {
 public:
  constexpr DoubleStar(int rank, int size)
      : rank_(rank), half_((size + 1) / 2), is_first_(rank < half_), leaves_((is_first_ ? half_ : size - half_) - 1) {}

  constexpr bool is_centre() const { return rank_ == centre(); }
  constexpr int centre() const { return is_first_ ? 0 : half_; }
  constexpr int other_centre() const { return is_first_ ? half_ : 0; }
  /// How many ranks follow the centre of this star.
  constexpr int leaves() const { return leaves_; }

 private:
  int rank_;
  int half_;
  bool is_first_;
  int leaves_;
};

}  // namespace rondo
