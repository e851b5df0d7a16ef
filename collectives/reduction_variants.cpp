#include "collectives/reduction_kernels.hpp"

namespace rondo::detail {
namespace {

constexpr KernelVariant kVariants[] = {{"any", &baseline_kernels}};

}  // namespace

std::span<const KernelVariant> kernel_variants() noexcept { return kVariants; }

}  // namespace rondo::detail
