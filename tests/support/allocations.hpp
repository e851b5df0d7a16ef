#pragma once

namespace rondo::testing {

/// How often this thread has asked the C library for memory, by itself or by operator new: allocations.cpp stands
/// before it.
long allocations() noexcept;

}  // namespace rondo::testing
