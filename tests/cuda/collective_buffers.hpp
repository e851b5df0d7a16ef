#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <rondo/communicator.hpp>
#include <rondo/cuda.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {

/// The same elements on the host and on the device.
template <typename T>
class Both {
 public:
  Both(Communicator& world, const DeviceUnderTest& device, std::size_t count, int first)
      : device_(device), host_(count), memory_(world, count) {
    fill(first);
  }

  void fill(int first, float scale = 1) {
    for (std::size_t i = 0; i < host_.size(); ++i) {
      host_[i] = static_cast<T>(scale * static_cast<float>((i * 7 + static_cast<std::size_t>(first) * 5) % 61));
    }
    device_.write(address(), std::as_bytes(std::span(host_)));
    device_.stream.synchronize();
  }
  std::span<T> host() { return host_; }
  device_span<T> device() { return memory_.span(stream_of(device_)); }
  void check(const char* what) {
    require(same_bits(device_.content(address(), std::span(host_).size_bytes()), host_), what);
  }

 private:
  cuda::Address address() { return address_of(memory_); }

  const DeviceUnderTest& device_;
  std::vector<T> host_;
  cuda::buffer<T> memory_;
};

}  // namespace rondo::testing
