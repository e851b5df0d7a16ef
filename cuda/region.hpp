#pragma once

#include <cstdint>
#include <stdexcept>

#include "cuda/driver_types.hpp"

namespace rondo::cuda {

/// Names an allocation of one process to the others, once and for all: no other allocation ever gets it.
using RegionId = std::uint32_t;

/// What another process must know to map an allocation. Travels once to each.
struct RegionDescription {
  RegionId id = 0;
  Address base = 0;  ///< at its owner: says which regions lie at the same place there, nothing more
  std::uint64_t bytes = 0;
  IpcMemoryHandle handle{};
};

/// What a peer said of a region or an event cannot be: `what()` tells of it as `it`.
class RegionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace rondo::cuda
