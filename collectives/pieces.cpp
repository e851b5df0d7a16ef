#include "collectives/pieces.hpp"

#include <algorithm>

#include <rondo/blocks.hpp>

namespace rondo::detail {
namespace {

bool is_of_one_vector(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::broadcast;
}

}  // namespace

Pieces::Pieces(const Plan& whole, int rank, std::size_t most, std::size_t largest_block)
    : whole_(whole),
      rank_(rank),
      by_blocks_(!is_of_one_vector(whole.collective)),
      length_(std::max<std::size_t>(by_blocks_ ? most / static_cast<std::size_t>(whole.blocks.size()) : most, 1)),
      count_(chunks_of(by_blocks_ ? largest_block : whole.blocks.total(), length_)) {}

Plan Pieces::plan(std::size_t index) const {
  Plan piece = whole_;
  if (by_blocks_) {
    piece.blocks = parts(whole_.blocks, index);
    piece.recv_blocks = parts(whole_.recv_blocks, index);
  } else {
    piece.blocks = Blocks::even(part(whole_.blocks.whole(Buffer::input), index).count, whole_.blocks.size());
  }
  return piece;
}

std::vector<Range> Pieces::given(std::size_t index) const {
  switch (whole_.collective) {
    case Collective::broadcast: return is_root() ? of_vector(Buffer::output, index) : std::vector<Range>();
    case Collective::scatter: return is_root() ? of_all(Buffer::input, whole_.blocks, index) : std::vector<Range>();
    case Collective::gather:
    case Collective::all_gather: return of_own(Buffer::input, index);
    case Collective::reduce_scatter:
    case Collective::all_to_all: return of_all(Buffer::input, whole_.blocks, index);
    default: return of_vector(Buffer::input, index);
  }
}

std::vector<Range> Pieces::got(std::size_t index) const {
  switch (whole_.collective) {
    case Collective::broadcast: return is_root() ? std::vector<Range>() : of_vector(Buffer::output, index);
    case Collective::reduce: return is_root() ? of_vector(Buffer::output, index) : std::vector<Range>();
    case Collective::scatter:
    case Collective::reduce_scatter: return of_own(Buffer::output, index);
    case Collective::gather: return is_root() ? of_all(Buffer::output, whole_.blocks, index) : std::vector<Range>();
    case Collective::all_gather: return of_all(Buffer::output, whole_.blocks, index);
    case Collective::all_to_all: return of_all(Buffer::output, whole_.recv_blocks, index);
    default: return of_vector(Buffer::output, index);
  }
}

Range Pieces::part(const Range& range, std::size_t index) const { return chunk_of(range, length_, index); }

Blocks Pieces::parts(const Blocks& blocks, std::size_t index) const {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < blocks.size(); ++rank) counts.push_back(part(blocks.in(Buffer::input, rank), index).count);
  return Blocks::of_counts(counts);
}

std::vector<Range> Pieces::of_vector(Buffer buffer, std::size_t index) const {
  return {part(whole_.blocks.whole(buffer), index)};
}

std::vector<Range> Pieces::of_own(Buffer buffer, std::size_t index) const {
  return {part({buffer, 0, whole_.blocks.count(rank_)}, index)};
}

std::vector<Range> Pieces::of_all(Buffer buffer, const Blocks& blocks, std::size_t index) const {
  std::vector<Range> ranges;
  for (int rank = 0; rank < blocks.size(); ++rank) ranges.push_back(part(blocks.in(buffer, rank), index));
  return ranges;
}

}  // namespace rondo::detail
