#include "bench/probe/probe_kernels.hpp"

namespace rondo::bench {

std::span<const std::byte> probe_kernel_image() noexcept { return {}; }

}  // namespace rondo::bench
