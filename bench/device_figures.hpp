#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <rondo/communicator.hpp>

#include "cuda/driver.hpp"

namespace rondo::bench {

inline constexpr std::string_view kStandInLine = "# this is a stand-in for a device: its figures mean nothing\n";

/// What a process sees here, without using it.
struct FoundDevices {
  std::string names;      ///< "NVIDIA H200", "NVIDIA H200 and 3 more"
  std::string driver;     ///< "libcuda.so.1, of CUDA 13.0"
  bool stand_in = false;  ///< of the tests: figures mean nothing
};

/// Where there is a driver. Throws cuda::CudaError.
FoundDevices found_devices();
/// "libcuda.so.1, of CUDA 13.0". Throws cuda::CudaError.
std::string driver_name(const cuda::Driver& driver);

/// A device, and what its operations are compared with.
struct DeviceFigures {
  std::string name;
  bool stand_in = false;       ///< of the tests: figures mean nothing
  std::size_t copy_bytes = 0;  ///< of each copy
  double copy_GBps = 0;        ///< read and written by copies within its memory
};

/// Of rank 0's device, while the others wait. Every rank calls it; `copy_GBps` is the same on all, the rest is rank 0's
/// to say. Throws std::runtime_error where there is no driver or no memory.
DeviceFigures measure_device(Communicator& world);

}  // namespace rondo::bench
