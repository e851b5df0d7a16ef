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

using Format_u8 = Plain<unsigned char>;
using Format_u16 = Plain<unsigned short>;
using Format_u32 = Plain<unsigned>;
using Format_u64 = Plain<unsigned long long>;
using Format_i8 = Plain<signed char>;
using Format_i16 = Plain<short>;
using Format_i32 = Plain<int>;
using Format_i64 = Plain<long long>;
using Format_f16 = Small<HalfConversion>;
using Format_bf16 = Small<BrainConversion>;
using Format_f32 = Plain<float>;
using Format_f64 = Plain<double>;
using Format_c64 = Complex<float>;
using Format_c128 = Complex<double>;

using Op_sum = Sum;
using Op_prod = Prod;
using Op_min = Min;
using Op_max = Max;
using Op_band = Band;
using Op_bor = Bor;
using Op_bxor = Bxor;
using Op_land = Land;
using Op_lor = Lor;

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
