#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

/// Adds up the gradients of all ranks while the backward pass is still running, as DistributedDataParallel
/// does: they are cut into buckets of some kilobytes, and the all_reduce of a bucket starts as soon as its
/// last gradient is there. Few large messages instead of one for each layer, and most of their time is hidden
/// behind the computation.
class GradientBuckets {
 public:
  /// `gradients` and `world` must outlive the buckets.
  GradientBuckets(rondo::Communicator& world, std::span<float> gradients, std::size_t bucket_bytes);

  std::size_t count() const { return buckets_.size(); }

  /// All gradients from `begin` to the end are final: starts the buckets that are now complete. They must
  /// stay untouched until `wait`.
  void ready(std::size_t begin);

  /// Until every gradient is the sum over all ranks. Then the buckets are ready for the next step.
  void wait();

 private:
  struct Bucket {
    std::size_t begin;
    std::span<float> gradients;
  };

  rondo::Communicator& world_;
  std::vector<Bucket> buckets_;  ///< from the last to the first, the order in which the backward pass fills them
  std::vector<rondo::Work> started_;
};
