#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

/// Adds up the gradients of all ranks while the backward pass is still running, as DistributedDataParallel
/// does: they are cut into buckets of some kilobytes, and the all_reduce of a bucket starts as soon as its
/// last gradient is there. Few large messages instead of one for each layer, and most of their time is hidden
/// behind the computation.
///
/// On a device the buckets are added up in its memory. This network computes on the host, so they are copied there and
/// back; where kernels compute the gradients, they write into a `rondo::cuda::buffer` and nothing is copied.
class GradientBuckets {
 public:
  /// `gradients` and `world` must outlive the buckets.
  GradientBuckets(rondo::Communicator& world, std::span<float> gradients, std::size_t bucket_bytes, bool on_device);

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
    rondo::cuda::buffer<float> on_device;
  };

  rondo::Work start(Bucket& bucket);

  rondo::Communicator& world_;
  bool on_device_;
  std::vector<Bucket> buckets_;  ///< from the last to the first, the order in which the backward pass fills them
  std::vector<rondo::Work> started_;
};
