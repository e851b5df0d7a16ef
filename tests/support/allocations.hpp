#pragma once

namespace rondo::testing {

/// How often this thread has called operator new, in any of its forms: allocations.cpp replaces them.
long allocations() noexcept;

}  // namespace rondo::testing
