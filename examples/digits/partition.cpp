#include "partition.hpp"

#include <algorithm>
#include <numeric>

Partition::Partition(std::size_t samples, std::size_t global_batch, std::uint32_t seed, int rank, int size)
    : order_(samples), global_batch_(global_batch), random_(seed), rank_(rank), size_(size) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

void Partition::shuffle() { std::shuffle(order_.begin(), order_.end(), random_); }

std::size_t Partition::global_count(std::size_t step) const {
  return std::min(global_batch_, order_.size() - step * global_batch_);
}

std::span<const std::size_t> Partition::samples(std::size_t step) const {
  const auto batch = std::span(order_).subspan(step * global_batch_, global_count(step));
  const auto share = share_of(batch.size(), rank_, size_);
  return batch.subspan(share.begin, share.end - share.begin);
}
