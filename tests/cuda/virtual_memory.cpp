#include "tests/cuda/virtual_memory.hpp"

#include <stdexcept>
#include <string>

#include "tests/cuda/device_under_test.hpp"

namespace rondo::testing {
namespace {

template <typename Function, typename... Arguments>
void must(const char* name, Arguments... arguments) {
  if (driver_function<Function>(name)(arguments...) != cuda::Result::success) {
    throw std::runtime_error(std::string(name) + " failed");
  }
}

}  // namespace

VirtualMemory::VirtualMemory(cuda::Device device, std::size_t bytes, std::size_t pieces) {
  const PhysicalFacts facts{.place = {.device = device}};
  const AccessFacts access{.place = facts.place};
  std::size_t granule = 0;
  must<PhysicalGranularity>("cuMemGetAllocationGranularity", &granule, &facts, 0);
  piece_bytes_ = (bytes + granule - 1) / granule * granule;
  bytes_ = pieces * piece_bytes_;
  must<AddressReserve>("cuMemAddressReserve", &address_, bytes_, std::size_t{0}, cuda::Address{0}, 0ULL);
  for (cuda::Address at = address_; at < address_ + bytes_; at += piece_bytes_) {
    PhysicalHandle handle = 0;
    must<PhysicalCreate>("cuMemCreate", &handle, piece_bytes_, &facts, 0ULL);
    must<PhysicalMap>("cuMemMap", at, piece_bytes_, std::size_t{0}, handle, 0ULL);
    // What is mapped stays as long as that.
    must<PhysicalRelease>("cuMemRelease", handle);
  }
  must<SetAccess>("cuMemSetAccess", address_, bytes_, &access, std::size_t{1});
}

VirtualMemory::~VirtualMemory() {
  driver_function<PhysicalUnmap>("cuMemUnmap")(address_, bytes_);
  driver_function<AddressFree>("cuMemAddressFree")(address_, bytes_);
}

Unmappable::Unmappable(const DeviceUnderTest& device, std::size_t bytes)
    : device_(device), current_(device.context), created_(device.context.device(), bytes, 2), bytes_(bytes) {
  using Pooled = cuda::Result(cuda::Address*, std::size_t, cuda::StreamHandle);
  using Managed = cuda::Result(cuda::Address*, std::size_t, unsigned);
  constexpr unsigned kForAll = 1;
  must<Pooled>("cuMemAllocAsync", &pooled_, bytes, device.stream.handle());
  must<Managed>("cuMemAllocManaged", &managed_, bytes, kForAll);
}

std::array<cuda::Address, 4> Unmappable::addresses() const noexcept {
  constexpr std::size_t kAligned = 16;
  return {pooled_, created_.address(), created_.border() - bytes_ / 2 / kAligned * kAligned, managed_};
}

Unmappable::~Unmappable() {
  driver_function<cuda::Result(cuda::Address, cuda::StreamHandle)>("cuMemFreeAsync")(pooled_, device_.stream.handle());
  device_.driver().cuMemFree(managed_);
}

}  // namespace rondo::testing
