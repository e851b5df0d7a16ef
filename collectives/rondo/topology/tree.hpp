#pragma once

#include <algorithm>

namespace rondo {

/// The binomial tree, for 8 ranks and root 0:
///
///     0 ------------- 4          child i of a rank is 2^i further on, and heads the 2^i ranks from there on
///     |-- 2 - 3       |-- 6 - 7  (fewer at the end), so every subtree is a run of consecutive ranks.
///     `-- 1           `-- 5      parent: clear the lowest set bit.
///
/// Another root turns the circle of ranks: `place` 0 is the root, place p is rank (root + p) mod size.
class Tree {
 public:
  constexpr Tree(int rank, int size, int root)
      : size_(size), root_(root), place_(rank >= root ? rank - root : rank - root + size) {}

  constexpr int place() const { return place_; }
  constexpr bool is_root() const { return place_ == 0; }
  constexpr int parent() const { return rank_at(place_ & (place_ - 1)); }

  /// How many children there are; child 0 is the nearest and has the smallest subtree.
  constexpr int children() const {
    int count = 0;
    while (has_child(count)) ++count;
    return count;
  }
  constexpr int child(int index) const { return rank_at(child_place(index)); }
  constexpr int child_place(int index) const { return place_ + (1 << index); }
  /// Ranks in that child's subtree, which begins at its place.
  constexpr int child_subtree(int index) const { return std::min(1 << index, size_ - child_place(index)); }

  /// Ranks in the subtree that this rank heads.
  constexpr int subtree() const { return is_root() ? size_ : std::min(place_ & -place_, size_ - place_); }

  constexpr int rank_at(int place) const { return place + root_ < size_ ? place + root_ : place + root_ - size_; }

 private:
  constexpr bool has_child(int index) const {
    const int bit = 1 << index;
    return child_place(index) < size_ && (place_ == 0 || bit < (place_ & -place_));
  }

  int size_;
  int root_;
  int place_;
};

/// Whether every subtree has all the ranks that it can have.
constexpr bool is_complete_tree(int size) { return (size & (size - 1)) == 0; }

/// Ranks in the largest subtree below the root of a tree of `size`.
constexpr int largest_subtree(int size) {
  const Tree root(0, size, 0);
  int largest = 0;
  for (int child = 0; child < root.children(); ++child) largest = std::max(largest, root.child_subtree(child));
  return largest;
}

}  // namespace rondo
