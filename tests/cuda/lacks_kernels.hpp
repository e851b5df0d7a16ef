#pragma once

#include "tests/cuda/device_under_test.hpp"
#include "tests/support/skipped.hpp"

namespace rondo::testing {

/// Then the running test case, which is about to return, is skipped.
inline bool lacks_kernels() {
  if (has_kernels()) return false;
  skipped("this build has no kernels, for want of nvcc");
  return true;
}

}  // namespace rondo::testing
