#include <cpuid.h>

#include "collectives/reduction_kernels.hpp"

namespace rondo::detail {
namespace {

constexpr KernelVariant kVariants[] = {
    {"x86-64", &baseline_kernels},
    {"avx2", &avx2_kernels},
    {"avx512", &avx512_kernels},
};

/// Compilers do not all know its name.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

/// Each asks for what the build file compiles the variant with. The compilers' functions also ask the operating system.
std::size_t usable_variants() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return 1;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 3 : 2;
}

}  // namespace

std::span<const KernelVariant> kernel_variants() noexcept {
  static const std::size_t usable = usable_variants();
  return {kVariants, usable};
}

}  // namespace rondo::detail
