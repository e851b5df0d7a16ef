#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cuda/context.hpp"
#include "cuda/pointer.hpp"

namespace rondo::testing {

/// The driver that RONDO_CUDA_LIBRARY names; without it, the stand-in. Throws std::runtime_error when there is none.
const cuda::Driver& driver_under_test();

/// Why not, in words; empty where there is one.
std::string why_no_driver();

/// Whether that is the stand-in, whose strictness and addresses no real driver has.
bool is_stand_in();

/// Whether rondo was built with kernels, of which sums on devices are made.
bool has_kernels();

/// One function that rondo's own table has not.
template <typename Function>
Function* driver_function(const char* name);

/// Memory on a device, freed with the object.
class DeviceMemory {
 public:
  DeviceMemory(const cuda::PrimaryContext& context, std::size_t bytes);
  ~DeviceMemory() { free(); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  cuda::Address address() const noexcept { return address_; }
  std::size_t bytes() const noexcept { return bytes_; }
  cuda::PointerFacts facts() const;
  void free();

 private:
  const cuda::PrimaryContext& context_;
  std::size_t bytes_;
  cuda::Address address_ = 0;
};

/// A device with a stream, and what tests do there.
class DeviceUnderTest {
 public:
  explicit DeviceUnderTest(cuda::Device device = 0) : context(driver_under_test(), device), stream(context) {}

  const cuda::Driver& driver() const { return context.driver(); }
  // These queue a copy; bytes of the host stay where they are until the stream is synchronised. A driver may read into
  // ordinary memory of the host at once, and block until what was queued before is done.
  void write(cuda::Address to, std::span<const std::byte> bytes) const;
  void read(cuda::Address from, std::span<std::byte> bytes) const;
  void copy(cuda::Address to, cuda::Address from, std::size_t bytes) const;
  /// These wait until all is done.
  void fill(cuda::Address to, std::size_t bytes, std::byte value) const;
  std::vector<std::byte> content(cuda::Address from, std::size_t bytes) const;
  bool holds(cuda::Address from, std::size_t bytes, std::byte value) const;

  cuda::PrimaryContext context;
  cuda::Stream stream;
};

/// What cuModuleLoadData takes: rondo's kernels; where they were not compiled, what the stand-in takes for them.
std::span<const std::byte> test_image();

/// Keeps a stream, the device's own or another, from going on until it is let go, by `let_go` or the destructor.
class HeldStream {
 public:
  explicit HeldStream(const DeviceUnderTest& device) : HeldStream(device, device.stream.handle()) {}
  HeldStream(const DeviceUnderTest& device, cuda::StreamHandle stream);
  ~HeldStream();
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  void let_go();
  /// And waits until it has come to its end.
  void drain();

 private:
  const DeviceUnderTest& device_;
  const cuda::StreamHandle stream_;
  std::atomic<bool> let_go_ = false;
};

void* find_driver_function(const char* name);

template <typename Function>
Function* driver_function(const char* name) {
  return reinterpret_cast<Function*>(find_driver_function(name));
}

}  // namespace rondo::testing
