#pragma once

#include <cstddef>

#include "cuda/driver_types.hpp"

namespace rondo::stand_in {

/// Copies go through the host where devices do not reach each other.
inline constexpr int kAnyDevice = -1;

/// What a copy or a kernel on `device` is about to do to memory: whether it may. Mistake where it is not (or no longer)
/// there, or out of the device's reach; false for memory that is none of the driver's.
bool check_access(const char* who, cuda::Address address, std::size_t bytes, int device);

/// Memory of the host that the driver pinned, or was told to; the second alone.
bool is_pinned(cuda::Address address, std::size_t bytes);
bool is_registered(cuda::Address address, std::size_t bytes);

/// Device memory comes in pieces of this size.
inline constexpr std::size_t kGranule = std::size_t{2} << 20;

}  // namespace rondo::stand_in
