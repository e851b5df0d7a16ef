#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <rondo/communicator.hpp>
#include <rondo/cuda.hpp>

namespace rondo::bench {

/// Elements of this rank's device, and a copy of them in the host's memory, where they are written and checked.
template <typename T>
class DeviceElements {
 public:
  DeviceElements() = default;
  /// Given to calls on that stream.
  DeviceElements(Communicator& communicator, std::size_t count, CudaStream stream) : host_(count), stream_(stream) {
    if (count > 0) device_ = cuda::buffer<T>(communicator, count);
  }

  std::span<T> host() { return host_; }
  std::span<const T> host() const { return host_; }
  device_span<T> given() { return device_.span(stream_); }
  void put() { device_.copy_from(host_); }
  void get() const { device_.copy_to(host_); }

 private:
  mutable std::vector<T> host_;
  CudaStream stream_ = nullptr;
  cuda::buffer<T> device_;
};

}  // namespace rondo::bench
