#pragma once

#include <cstdint>
#include <string>

#include "cuda/driver.hpp"

namespace rondo::cuda {

/// What the driver knows of an address.
struct PointerFacts {
  enum class Kind : std::uint8_t {
    host,     ///< pageable, or pinned: the host moves it
    managed,  ///< both reach it, other processes do not
    device,
  };

  Kind kind = Kind::host;
  Device device = 0;  ///< of managed memory, the one in whose context it was allocated
  // The rest is of device memory; managed memory has a buffer_id, too.
  // Where it is not exportable, base and bytes may be of a piece of the allocation.
  Address base = 0;             ///< of the whole allocation, which is what other processes map
  std::uint64_t bytes = 0;      ///< of the whole allocation
  std::uint64_t buffer_id = 0;  ///< never again another allocation's, also where that has the same base
  bool exportable = false;      ///< by a handle of cuIpcGetMemHandle
  std::string why_not;          ///< where it is not exportable, for the log
};

/// Asks the driver, in one call. Throws CudaError when that fails, which it does not for memory that CUDA has never
/// heard of. A context is current.
PointerFacts classify(const Driver& driver, Address address);

/// The same where no context need be current: in one that the process uses. As long as it uses none, all memory is the
/// host's.
PointerFacts classify_anywhere(const Driver& driver, Address address);

}  // namespace rondo::cuda
