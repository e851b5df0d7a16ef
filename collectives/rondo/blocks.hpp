#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <rondo/port.hpp>
#include <rondo/task.hpp>

namespace rondo {

/// How a vector is shared out among the ranks: rank r's block is `count(r)` elements from element `begin(r)`.
///
///     even(10, 4):           |0 0 0|1 1 1|2 2|3 3|        the first 10 % 4 blocks are one longer
///     even(10, 4, 2):        |0 0 0 0 0|1 1 1 1 1|||
///     of_counts({0,5,1,2}):  ||1 1 1 1 1|2|3 3|           empty blocks are blocks too
class Blocks {
 public:
  Blocks() = default;

  /// `total` elements over `size` ranks as evenly as it goes. Holds no memory, so a world of any size is cheap.
  static Blocks even(std::size_t total, int size) { return even(total, size, size); }
  /// The same over the first `sharing` of them; the others' blocks are empty.
  static Blocks even(std::size_t total, int size, int sharing) {
    Blocks blocks;
    blocks.size_ = size;
    blocks.total_ = total;
    blocks.share_ = total / static_cast<std::size_t>(sharing);
    blocks.longer_ = total % static_cast<std::size_t>(sharing);
    blocks.largest_ = blocks.share_ + (blocks.longer_ > 0 ? 1 : 0);
    return blocks;
  }

  /// `counts[r]` elements for rank r, one after the other.
  static Blocks of_counts(std::span<const std::size_t> counts) {
    Blocks blocks;
    blocks.size_ = static_cast<int>(counts.size());
    blocks.begins_.reserve(counts.size() + 1);
    for (const std::size_t count : counts) {
      blocks.begins_.push_back(blocks.total_);
      blocks.total_ += count;
      blocks.largest_ = std::max(blocks.largest_, count);
    }
    blocks.begins_.push_back(blocks.total_);
    return blocks;
  }

  int size() const noexcept { return size_; }
  std::size_t total() const noexcept { return total_; }
  std::size_t largest() const noexcept { return largest_; }

  /// First element of the block of `rank`; of `size()`: the total.
  std::size_t begin(int rank) const noexcept {
    const auto r = static_cast<std::size_t>(rank);
    if (!begins_.empty()) return begins_[r];
    return std::min(r * share_ + std::min(r, longer_), total_);
  }
  std::size_t count(int rank) const noexcept { return begin(rank + 1) - begin(rank); }

  /// Elements of `many` consecutive blocks from that of `first` on, going round after the last rank.
  std::size_t count_around(int first, int many) const noexcept {
    const int last = first + many;
    if (last <= size_) return begin(last) - begin(first);
    return total_ - begin(first) + begin(last - size_);
  }

  Range in(Buffer buffer, int rank) const noexcept { return {buffer, begin(rank), count(rank)}; }
  Range whole(Buffer buffer) const noexcept { return {buffer, 0, total_}; }

 private:
  int size_ = 1;
  std::size_t total_ = 0;
  std::size_t largest_ = 0;
  std::size_t share_ = 0;                                                  ///< of even blocks: elements in each,
  std::size_t longer_ = 0;                                                 ///< and how many have one more
  std::vector<std::size_t, detail::PooledAllocator<std::size_t>> begins_;  ///< size + 1; empty: even blocks
};

/// Chunks of at most `chunk` elements in `count`; 0 elements make 0 chunks, `chunk` 0 means everything in one.
constexpr std::size_t chunks_of(std::size_t count, std::size_t chunk) {
  if (count == 0) return 0;
  return chunk == 0 ? 1 : (count - 1) / chunk + 1;
}

/// Elements in the longest of those chunks.
constexpr std::size_t longest_chunk(std::size_t count, std::size_t chunk) {
  return chunk == 0 ? count : std::min(count, chunk);
}

/// Chunk `index` of `whole`; empty behind its end.
constexpr Range chunk_of(const Range& whole, std::size_t chunk, std::size_t index) {
  if (chunk == 0) return index == 0 ? whole : whole.part(whole.count, 0);
  const std::size_t offset = std::min(index * chunk, whole.count);
  return whole.part(offset, std::min(chunk, whole.count - offset));
}

/// The same chunk of every block, which is what one turn of a ring works on. Blocks that are too short have an empty
/// one.
///
///     stripe 0 of even(10, 4), chunk 2:   |0 0 .|1 1 .|2 2|3 3|
///     stripe 1:                           |. . 0|. . 1|. .|. .|
class Stripe {
 public:
  Stripe(const Blocks& blocks, std::size_t chunk, std::size_t index) : blocks_(&blocks), chunk_(chunk), index_(index) {}

  Range in(Buffer buffer, int rank) const noexcept { return chunk_of(blocks_->in(buffer, rank), chunk_, index_); }

 private:
  const Blocks* blocks_;
  std::size_t chunk_;
  std::size_t index_;
};

}  // namespace rondo
