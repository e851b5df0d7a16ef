#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <rondo/collective_call.hpp>
#include <rondo/port.hpp>

#include "collectives/arguments.hpp"
#include "runtime/rank_device.hpp"

namespace rondo::detail {

/// The device's memory of one collective: what the ranges of its algorithm mean. The caller's buffers, and scratch.
class DeviceMemory {
 public:
  /// Takes what this rank gives and gets. Throws Error, naming the collective.
  DeviceMemory(RankDevice& device, const CollectiveCall& call, const Arguments& arguments, int rank);
  /// What still runs on the buffers has nobody to tell.
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  using Buffer = std::shared_ptr<DeviceBuffer>;
  /// Where the input lies, and where the output; the same in place, nothing where there are no bytes.
  const Buffer& given() const noexcept { return given_; }
  const Buffer& got() const noexcept { return got_; }

  cuda::Address input() const noexcept { return input_; }
  cuda::Address output() const noexcept { return output_; }

  Range scratch(std::size_t count);
  /// What keeps scratch from being anybody else's.
  std::shared_ptr<void> holder_of(const Range& range) const noexcept { return scratch_of(range).memory; }

  std::size_t element_bytes() const noexcept { return element_bytes_; }
  std::size_t bytes(const Range& range) const noexcept { return range.count * element_bytes_; }
  /// Empty ranges have no address.
  cuda::Address address(const Range& range) const noexcept;
  /// Throws CudaError where the caller has freed what the range lies in.
  void check_there(const Range& range) const;
  /// The allocation that a range lies in.
  const cuda::PointerFacts& facts(const Range& range) const noexcept;

 private:
  struct Scratch {
    std::size_t begin;
    std::size_t count;
    std::shared_ptr<DeviceScratch> memory;
  };
  const Scratch& scratch_of(const Range& range) const noexcept;
  /// The caller's, of a range that is not of scratch.
  const DeviceBuffer& buffer_of(const Range& range) const noexcept;

  RankDevice& device_;
  const std::size_t element_bytes_;
  const cuda::Address input_;
  const cuda::Address output_;
  Buffer given_, got_;
  std::vector<Scratch> scratch_;
  std::size_t scratch_count_ = 0;
};

}  // namespace rondo::detail
