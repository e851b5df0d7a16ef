#pragma once

#include <cstddef>
#include <string>

#include <rondo/communicator.hpp>

namespace rondo::bench {

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
