#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "cuda/context.hpp"
#include "cuda/pointer.hpp"

namespace rondo::testing {

/// The driver that RONDO_CUDA_LIBRARY names; without it, the stand-in. Throws std::runtime_error when there is none.
const cuda::Driver& driver_under_test();

/// Whether that is the stand-in, whose strictness and addresses no real driver has.
bool is_stand_in();

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
  /// Queues a copy of bytes that stay where they are until the stream is synchronised.
  void write(cuda::Address to, std::span<const std::byte> bytes) const;
  void read(cuda::Address from, std::span<std::byte> bytes) const;
  /// These wait until all is done.
  void fill(cuda::Address to, std::size_t bytes, std::byte value) const;
  std::vector<std::byte> content(cuda::Address from, std::size_t bytes) const;
  bool holds(cuda::Address from, std::size_t bytes, std::byte value) const;

  cuda::PrimaryContext context;
  cuda::Stream stream;
};

/// What cuModuleLoadData takes: rondo's kernels; where they were not compiled, what the stand-in takes for them.
std::span<const std::byte> test_image();

/// A kernel of the stand-in that keeps a stream from going on until it is let go, by `let_go` or the destructor.
class HeldStream {
 public:
  explicit HeldStream(const DeviceUnderTest& device);
  ~HeldStream();
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;

  bool runs() const { return words_[0] != 0; }
  void let_go() { words_[1] = 1; }

 private:
  const DeviceUnderTest& device_;
  cuda::ModuleHandle module_ = nullptr;
  std::atomic<unsigned> words_[2] = {};
};

void* find_driver_function(const char* name);

template <typename Function>
Function* driver_function(const char* name) {
  return reinterpret_cast<Function*>(find_driver_function(name));
}

}  // namespace rondo::testing
