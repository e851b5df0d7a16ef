// All kernels in one image, so that one module has them all.

#include "cuda/kernels/kernels.cuh"

RONDO_CUDA_ARITHMETIC(RONDO_CUDA_FOLDS)
RONDO_CUDA_ORDER(RONDO_CUDA_FOLDS)
RONDO_CUDA_BITS(RONDO_CUDA_FOLDS)
RONDO_CUDA_AVERAGES(RONDO_CUDA_AVERAGE)
RONDO_CUDA_QUOTIENTS(RONDO_CUDA_QUOTIENT)

RONDO_CUDA_KERNEL rondo_move(const __grid_constant__ rondo::cuda::MoveArguments a) {
  rondo::cuda::move_loop(a, rondo::cuda::this_lane());
}
