#pragma once

namespace rondo {

/// Ranks in a circle: everybody sends to the next and receives from the one before.
///
///        0 --> 1
///        ^     |        Reduce-scatter walks the blocks so that rank r ends with block r complete, and
///        |     v        all-gather goes on from there.
///        3 <-- 2
///
/// Three ranks, blocks a b c (upper case: complete), what each holds after every step:
///
///            rank 0      rank 1      rank 2
///     start  a0 b0 c0    a1 b1 c1    a2 b2 c2
///     reduce-scatter: rank r sends block r-1, then r-2
///     1      .  b02 .    .  .  c01   a12 .  .      0 sent c, 1 sent a, 2 sent b
///     2      A  .  .     .  B  .     .  .  C       0 sent b, 1 sent c, 2 sent a
///     all-gather: rank r sends block r, then r-1
///     3      A  .  C     A  B  .     .  B  C
///     4      A  B  C     A  B  C     A  B  C
class Ring {
 public:
  constexpr Ring(int rank, int size) : rank_(rank), size_(size) {}

  constexpr int steps() const { return size_ - 1; }
  constexpr int next() const { return around(1); }
  constexpr int prev() const { return around(-1); }

  /// The rank `distance` further on (or back, when negative); at most once round.
  constexpr int around(int distance) const {
    const int rank = rank_ + distance;
    return rank < 0 ? rank + size_ : rank >= size_ ? rank - size_ : rank;
  }

  constexpr int reduce_send(int step) const { return around(-step - 1); }
  constexpr int reduce_recv(int step) const { return reduce_send(step + 1); }
  constexpr int gather_send(int step) const { return around(-step); }
  constexpr int gather_recv(int step) const { return gather_send(step + 1); }

 private:
  int rank_;
  int size_;
};

}  // namespace rondo
