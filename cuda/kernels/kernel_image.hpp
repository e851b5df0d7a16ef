#pragma once

#include <cstddef>
#include <span>

namespace rondo::cuda {

/// The kernels as nvcc compiled them, for cuModuleLoadData; empty where rondo was built without nvcc.
std::span<const std::byte> kernel_image() noexcept;

}  // namespace rondo::cuda
