#pragma once

#include <rondo/allocate.hpp>

#include "bench/measure.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// Memory for a collective's two buffers in which all ranks reach each other's, if the settings ask for it.
template <typename T>
struct Allocated {
  Allocated(Communicator& communicator, const Settings& settings, const Shape& shape) {
    if (!settings.allocate) return;
    first = allocate<T>(communicator, shape.bytes / sizeof(T));
    second = allocate<T>(communicator, shape.bytes / sizeof(T));
  }

  SharedBuffer<T> first;
  SharedBuffer<T> second;
};

}  // namespace rondo::bench
