#include "gradient_buckets.hpp"

#include <algorithm>

GradientBuckets::GradientBuckets(rondo::Communicator& world, std::span<float> gradients, std::size_t bucket_bytes)
    : world_(world) {
  const auto capacity = std::max<std::size_t>(bucket_bytes / sizeof(float), 1);
  for (auto end = gradients.size(); end > 0;) {
    const auto begin = end - std::min(end, capacity);
    buckets_.push_back({begin, gradients.subspan(begin, end - begin)});
    end = begin;
  }
}

void GradientBuckets::ready(std::size_t begin) {
  // Every rank starts the buckets in the same order: that is how rondo knows which belong together.
  while (started_.size() < buckets_.size() && buckets_[started_.size()].begin >= begin) {
    started_.push_back(rondo::iall_reduce(world_, buckets_[started_.size()].gradients, rondo::sum));
  }
}

void GradientBuckets::wait() {
  rondo::wait_all(started_);
  started_.clear();
}
