#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

/// A rank's share of `count` items: [begin, end). The shares of all ranks follow one another without a gap,
/// and differ by at most one item.
struct Share {
  std::size_t begin;
  std::size_t end;
};

constexpr Share share_of(std::size_t count, int rank, int size) {
  const auto r = static_cast<std::size_t>(rank);
  const auto p = static_cast<std::size_t>(size);
  return {count * r / p, count * (r + 1) / p};
}

/// Which samples this rank trains on. In every epoch the data set is shuffled, the same way on every rank,
/// and cut into global batches; of each batch every rank takes its share. So the ranks' parts make up the
/// whole data set, and the global batches are the same however many ranks there are.
class Partition {
 public:
  Partition(std::size_t samples, std::size_t global_batch, std::uint32_t seed, int rank, int size);

  /// A new order for a new epoch.
  void shuffle();

  std::size_t steps() const { return (order_.size() + global_batch_ - 1) / global_batch_; }

  /// Samples of all ranks in this step: the last batch of an epoch may be a smaller one.
  std::size_t global_count(std::size_t step) const;

  /// Indices of this rank's samples in this step. May be empty, when a small batch meets many ranks.
  std::span<const std::size_t> samples(std::size_t step) const;

 private:
  std::vector<std::size_t> order_;
  std::size_t global_batch_;
  std::mt19937 random_;
  int rank_;
  int size_;
};
