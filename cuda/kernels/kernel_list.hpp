#pragma once

// Every kernel there is: X(format, operator) for each pair. What gives the same bits is there once: signed integers add
// as unsigned ones, complex numbers as their parts, bits are combined byte by byte. cuda/reduction.cpp knows which
// element type takes which.
//
// A kernel's name is rondo_<shape>_<format>_<operator>; of the shape `divide`, which has no operator,
// rondo_divide_<format>. One more, rondo_move, is of bytes.

#define RONDO_CUDA_WRAPPING_FORMATS(X, op) \
  X(u8, op)                                \
  X(u16, op)                               \
  X(u32, op)                               \
  X(u64, op)

#define RONDO_CUDA_FLOAT_FORMATS(X, op) \
  X(f16, op)                            \
  X(bf16, op)                           \
  X(f32, op)                            \
  X(f64, op)

#define RONDO_CUDA_ORDERED_FORMATS(X, op) \
  RONDO_CUDA_WRAPPING_FORMATS(X, op)      \
  X(i8, op)                               \
  X(i16, op)                              \
  X(i32, op)                              \
  X(i64, op)                              \
  RONDO_CUDA_FLOAT_FORMATS(X, op)

/// Of the shapes `combine` and `direct`.
#define RONDO_CUDA_ARITHMETIC(X)       \
  RONDO_CUDA_WRAPPING_FORMATS(X, sum)  \
  RONDO_CUDA_FLOAT_FORMATS(X, sum)     \
  RONDO_CUDA_WRAPPING_FORMATS(X, prod) \
  RONDO_CUDA_FLOAT_FORMATS(X, prod)    \
  X(c64, prod)                         \
  X(c128, prod)

#define RONDO_CUDA_ORDER(X)          \
  RONDO_CUDA_ORDERED_FORMATS(X, min) \
  RONDO_CUDA_ORDERED_FORMATS(X, max)

#define RONDO_CUDA_BITS(X)             \
  X(u8, band)                          \
  X(u8, bor)                           \
  X(u8, bxor)                          \
  RONDO_CUDA_WRAPPING_FORMATS(X, land) \
  RONDO_CUDA_WRAPPING_FORMATS(X, lor)

/// Of the shape `direct` only.
#define RONDO_CUDA_AVERAGES(X) RONDO_CUDA_ORDERED_FORMATS(X, avg)

/// Of the shape `divide`; the operator means nothing.
#define RONDO_CUDA_QUOTIENTS(X) RONDO_CUDA_ORDERED_FORMATS(X, none)
