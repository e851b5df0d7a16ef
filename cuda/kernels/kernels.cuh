#pragma once

// The kernels as nvcc compiles them, from the loops.

#include "cuda/kernels/element_loops.hpp"
#include "cuda/kernels/kernel_list.hpp"

namespace rondo::cuda {

/// By the device's own instructions: in software, conversions would take longer than memory does.
struct HalfConversion {
  static __device__ __forceinline__ float widen(unsigned short stored) {
    float computed;
    asm("cvt.f32.f16 %0, %1;" : "=f"(computed) : "h"(stored));
    return computed;
  }
  static __device__ __forceinline__ unsigned short narrow(float computed) {
    unsigned short stored;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored) : "f"(computed));
    return stored;
  }
};

struct BrainConversion {
  static __device__ __forceinline__ float widen(unsigned short stored) {
    return __uint_as_float(static_cast<unsigned>(stored) << 16);
  }
  static __device__ __forceinline__ unsigned short narrow(float computed) {
    unsigned short stored;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(stored) : "f"(computed));
    return stored;
  }
};

using Format_f16 = Small<HalfConversion>;
using Format_bf16 = Small<BrainConversion>;

__device__ __forceinline__ Lane this_lane() {
  return {static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x,
          static_cast<unsigned long long>(gridDim.x) * blockDim.x};
}

}  // namespace rondo::cuda

#define RONDO_CUDA_KERNEL extern "C" __global__ void __launch_bounds__(512)

#define RONDO_CUDA_FOLDS(format, op)                                                                         \
  RONDO_CUDA_KERNEL rondo_combine_##format##_##op(const __grid_constant__ rondo::cuda::CombineArguments a) { \
    using namespace rondo::cuda;                                                                             \
    combine_loop<Format_##format, Op_##op>(a, this_lane());                                                  \
  }                                                                                                          \
  RONDO_CUDA_KERNEL rondo_direct_##format##_##op(const __grid_constant__ rondo::cuda::DirectArguments a) {   \
    using namespace rondo::cuda;                                                                             \
    direct_loop<Format_##format, Op_##op, AsItIs>(a, this_lane());                                           \
  }

#define RONDO_CUDA_AVERAGE(format, op)                                                                    \
  RONDO_CUDA_KERNEL rondo_direct_##format##_avg(const __grid_constant__ rondo::cuda::DirectArguments a) { \
    using namespace rondo::cuda;                                                                          \
    direct_loop<Format_##format, Sum, Divided>(a, this_lane());                                           \
  }

#define RONDO_CUDA_QUOTIENT(format, op)                                                             \
  RONDO_CUDA_KERNEL rondo_divide_##format(const __grid_constant__ rondo::cuda::DivideArguments a) { \
    using namespace rondo::cuda;                                                                    \
    divide_loop<Format_##format>(a, this_lane());                                                   \
  }
