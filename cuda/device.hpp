#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda/driver.hpp"

namespace rondo::cuda {

/// What is known of a device without using it.
struct DeviceFacts {
  Device device = 0;  ///< in this process only: other processes may number them otherwise
  Uuid uuid{};        ///< the same in all processes
  std::string name;
  int multiprocessors = 0;
};

/// Every device that this process sees, in the driver's order. Throws CudaError.
std::vector<DeviceFacts> devices(const Driver& driver);

/// The number here of a device that another process named; nothing where this process does not see it.
std::optional<Device> find_device(const Driver& driver, const Uuid& uuid);

/// Whether kernels and copies on `from` reach the memory of `to`. A device reaches itself, which the driver denies.
bool reaches(const Driver& driver, Device from, Device to);

/// Whether a device that reaches another reads from it as fast as it writes to it: over NVLink it does, over PCIe a
/// write need not wait for an answer. (Atomic operations on the other's memory tell which it is.)
bool reads_well(const Driver& driver, Device from, Device to);

}  // namespace rondo::cuda
