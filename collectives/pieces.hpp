#pragma once

#include <cstddef>
#include <vector>

#include <rondo/plan.hpp>
#include <rondo/port.hpp>

namespace rondo::detail {

/// A collective in pieces, one after the other, each a collective of its own by the same algorithm: of a part of the
/// vector, or of the same stretch of every rank's block. Number and borders are the same on all ranks. What a piece
/// writes in place no later piece reads.
///
///     all_reduce of 10, pieces of 4:              |0 0 0 0|1 1 1 1|2 2|
///     all_gather of 4, 0 and 3, 2 of each block:  |0 0 1 1||0 0 1|
class Pieces {
 public:
  /// The plan outlives this. `most`: elements of a piece, but one of each rank's at least. `largest_block`: of any
  /// rank.
  Pieces(const Plan& whole, int rank, std::size_t most, std::size_t largest_block);

  std::size_t count() const noexcept { return count_; }
  Plan plan(std::size_t index) const;
  /// What the piece's input is made of, and its output, one after the other in their buffers: ranges of the whole's.
  /// The first piece's are the longest.
  std::vector<Range> given(std::size_t index) const;
  std::vector<Range> got(std::size_t index) const;

 private:
  bool is_root() const noexcept { return rank_ == whole_.root; }
  Range part(const Range& range, std::size_t index) const;
  Blocks parts(const Blocks& blocks, std::size_t index) const;
  std::vector<Range> of_vector(Buffer buffer, std::size_t index) const;
  std::vector<Range> of_own(Buffer buffer, std::size_t index) const;
  std::vector<Range> of_all(Buffer buffer, const Blocks& blocks, std::size_t index) const;

  const Plan& whole_;
  const int rank_;
  const bool by_blocks_;
  const std::size_t length_;  ///< of the vector's parts, or of a block's
  const std::size_t count_;
};

}  // namespace rondo::detail
