#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda/kernels/element_loops.hpp"

namespace rondo::stand_in {

/// A kernel compiled for the host.
struct HostKernel {
  std::string name;
  std::size_t argument_bytes = 0;
  /// Runs as one of its threads.
  void (*run)(const void* arguments, cuda::Lane lane) = nullptr;
  /// Looks at the memory that it is going to touch.
  void (*check)(const void* arguments, int device) = nullptr;
};

/// Of rondo's own list and the probe's; one more, "stand_in_spin", waits in vain for another process, as no kernel may.
std::vector<HostKernel> host_kernels();

}  // namespace rondo::stand_in
