#include "gradient_buckets.hpp"

#include <algorithm>

GradientBuckets::GradientBuckets(rondo::Communicator& world, std::span<float> gradients, std::size_t bucket_bytes,
                                 bool on_device)
    : world_(world), on_device_(on_device) {
  const auto capacity = std::max<std::size_t>(bucket_bytes / sizeof(float), 1);
  for (auto end = gradients.size(); end > 0;) {
    const auto begin = end - std::min(end, capacity);
    buckets_.push_back({begin, gradients.subspan(begin, end - begin), {}});
    if (on_device) buckets_.back().on_device = rondo::cuda::buffer<float>(world, end - begin);
    end = begin;
  }
}

void GradientBuckets::ready(std::size_t begin) {
  // Every rank starts the buckets in the same order: that is how rondo knows which belong together.
  while (started_.size() < buckets_.size() && buckets_[started_.size()].begin >= begin) {
    started_.push_back(start(buckets_[started_.size()]));
  }
}

rondo::Work GradientBuckets::start(Bucket& bucket) {
  if (!on_device_) return rondo::iall_reduce(world_, bucket.gradients, rondo::sum);
  bucket.on_device.copy_from(bucket.gradients);
  return rondo::iall_reduce(world_, bucket.on_device.span(), rondo::sum);
}

void GradientBuckets::wait() {
  rondo::wait_all(started_);
  started_.clear();
  if (!on_device_) return;
  for (const Bucket& bucket : buckets_) bucket.on_device.copy_to(bucket.gradients);
}
