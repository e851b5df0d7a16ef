#pragma once

#include "cuda/reduction.hpp"

namespace rondo::detail {

/// How the elements of one collective are combined on the device.
struct DeviceReduction {
  const cuda::Reductions* kernels = nullptr;  ///< nullptr: not at all
  cuda::Reduction functions;
};

}  // namespace rondo::detail
