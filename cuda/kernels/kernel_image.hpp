#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace rondo::cuda {

/// The kernels as nvcc compiled them, for cuModuleLoadData; empty where rondo was built without nvcc.
std::span<const std::byte> kernel_image() noexcept;
/// What compiled them, "CUDA 13.0": an older driver may not know what it made. Empty where nothing did.
std::string_view kernel_compiler() noexcept;

}  // namespace rondo::cuda
