// The probe's own kernels.

#include "bench/probe/spin_loop.hpp"
#include "cuda/kernels/kernels.cuh"

namespace rondo::bench {

/// Words of other processes' kernels, which may change at any time.
struct DeviceMachine {
  static __device__ __forceinline__ unsigned load(unsigned* word) {
    unsigned value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  static __device__ __forceinline__ void store(unsigned* word, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  static __device__ __forceinline__ unsigned long long clock() { return static_cast<unsigned long long>(clock64()); }
  static __device__ __forceinline__ void pause() {}
};

}  // namespace rondo::bench

RONDO_CUDA_KERNEL rondo_probe_spin(const __grid_constant__ rondo::bench::SpinArguments a) {
  rondo::bench::spin_loop<rondo::bench::DeviceMachine>(a, rondo::cuda::this_lane());
}

#define RONDO_PROBE_SUM(unroll)                                                                               \
  RONDO_CUDA_KERNEL rondo_probe_sum_unroll_##unroll(const __grid_constant__ rondo::cuda::DirectArguments a) { \
    using namespace rondo::cuda;                                                                              \
    direct_loop<Format_f32, Op_sum, AsItIs, 0, unroll>(a, this_lane());                                       \
  }

RONDO_PROBE_SUM(4)
RONDO_PROBE_SUM(8)
