#pragma once

namespace rondo {

/// Two stars with joined centres: each half of the ranks has its first for a centre. For 7 ranks:
///
///     1 --.       .-- 5
///     2 -- 0 --- 4
///     3 --'       `-- 6
class DoubleStar {
 public:
  constexpr DoubleStar(int rank, int size)
      : half_((size + 1) / 2), is_first_(rank < half_), is_centre_(rank == (is_first_ ? 0 : half_)), size_(size) {}

  constexpr bool is_centre() const { return is_centre_; }
  constexpr int centre() const { return is_first_ ? 0 : half_; }
  constexpr int other_centre() const { return is_first_ ? half_ : 0; }
  /// The leaves of this star are the ranks from `centre() + 1` to before this one.
  constexpr int end() const { return is_first_ ? half_ : size_; }

 private:
  int half_;
  bool is_first_;
  bool is_centre_;
  int size_;
};

/// Of the first star.
constexpr int most_leaves(int size) { return (size + 1) / 2 - 1; }

}  // namespace rondo
