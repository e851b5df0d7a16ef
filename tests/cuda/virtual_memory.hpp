#pragma once

#include <array>
#include <cstddef>

#include "cuda/context.hpp"
#include "cuda/driver_types.hpp"

/// Device memory whose addresses and bytes are had apart and then brought together, of which rondo itself has none.
namespace rondo::testing {

// What the driver's functions take for it. declarations.cpp compares this with the toolkit's header.

using PhysicalHandle = unsigned long long;

struct MemoryPlace {
  int type = 1;  ///< a device
  cuda::Device device = 0;
};

struct PhysicalFacts {
  int type = 1;  ///< pinned: there is no other
  int exportable_as = 0;
  MemoryPlace place;
  void* of_windows = nullptr;
  unsigned char flags[8] = {};
};

struct AccessFacts {
  MemoryPlace place;
  int flags = 3;  ///< read and write
};

using PhysicalCreate = cuda::Result(PhysicalHandle*, std::size_t, const PhysicalFacts*, unsigned long long);
using PhysicalRelease = cuda::Result(PhysicalHandle);
using PhysicalGranularity = cuda::Result(std::size_t*, const PhysicalFacts*, int);
using AddressReserve = cuda::Result(cuda::Address*, std::size_t, std::size_t, cuda::Address, unsigned long long);
using AddressFree = cuda::Result(cuda::Address, std::size_t);
using PhysicalMap = cuda::Result(cuda::Address, std::size_t, std::size_t, PhysicalHandle, unsigned long long);
using PhysicalUnmap = cuda::Result(cuda::Address, std::size_t);
using SetAccess = cuda::Result(cuda::Address, std::size_t, const AccessFacts*, std::size_t);

/// Pieces of so many bytes each, or a few more, back to back, on the device whose context is current.
class VirtualMemory {
 public:
  /// Throws std::runtime_error.
  VirtualMemory(cuda::Device device, std::size_t bytes, std::size_t pieces = 1);
  ~VirtualMemory();
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  cuda::Address address() const noexcept { return address_; }
  /// Where the second piece begins.
  cuda::Address border() const noexcept { return address_ + piece_bytes_; }

 private:
  std::size_t piece_bytes_ = 0;
  std::size_t bytes_ = 0;
  cuda::Address address_ = 0;
};

class DeviceUnderTest;

/// Memory of each kind that other processes cannot map, so many bytes: of a pool, virtual, of two
/// virtual pieces, managed.
class Unmappable {
 public:
  /// Throws std::runtime_error.
  Unmappable(const DeviceUnderTest& device, std::size_t bytes);
  ~Unmappable();
  Unmappable(const Unmappable&) = delete;
  Unmappable& operator=(const Unmappable&) = delete;

  std::array<cuda::Address, 4> addresses() const noexcept;

 private:
  const DeviceUnderTest& device_;
  const cuda::Current current_;
  const VirtualMemory created_;
  const std::size_t bytes_;
  cuda::Address pooled_ = 0;
  cuda::Address managed_ = 0;
};

}  // namespace rondo::testing
