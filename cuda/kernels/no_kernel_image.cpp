#include "cuda/kernels/kernel_image.hpp"

namespace rondo::cuda {

std::span<const std::byte> kernel_image() noexcept { return {}; }

}  // namespace rondo::cuda
