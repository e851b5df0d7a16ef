#pragma once

// The loops over elements: those of the kernels, and of the host, where tests run the same. Whoever includes it says
// how 16-bit floats are converted (`Small`). Nothing is reassociated nor fused (nvcc -fmad=false), so the bits are
// those of the host's own reductions, whatever the shape of a launch.

#include "cuda/kernels/arguments.hpp"

#ifdef __CUDACC__
#define RONDO_CUDA_INLINE __device__ __forceinline__
#define RONDO_CUDA_UNROLL _Pragma("unroll")
#define RONDO_CUDA_UNROLL_BY(times) RONDO_CUDA_PRAGMA(unroll(times))
#define RONDO_CUDA_PRAGMA(text) _Pragma(#text)
#else
#define RONDO_CUDA_INLINE inline
#define RONDO_CUDA_UNROLL
#define RONDO_CUDA_UNROLL_BY(times)
#endif

namespace rondo::cuda {

/// One of the threads that share a loop, on the device or pretended.
struct Lane {
  unsigned long long index;
  unsigned long long count;
};

// A format: how an element lies in memory, and what it is computed in.

template <typename T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static RONDO_CUDA_INLINE T widen(T stored) { return stored; }
  static RONDO_CUDA_INLINE T narrow(T computed) { return computed; }
};

/// Sums and products of all inputs are rounded once. `Conversion` has the same two functions.
template <typename Conversion>
struct Small {
  using Stored = unsigned short;
  using Computed = float;
  static RONDO_CUDA_INLINE float widen(Stored stored) { return Conversion::widen(stored); }
  static RONDO_CUDA_INLINE Stored narrow(float computed) { return Conversion::narrow(computed); }
};

template <typename Part>
struct ComplexValue {
  Part real;
  Part imaginary;
};
template <typename Part>
using Complex = Plain<ComplexValue<Part>>;

/// At least as wide as unsigned int and without a sign: so integers wrap around, with nothing undefined.
template <typename T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<unsigned char> {
  using Type = unsigned;
};
template <>
struct Wide<unsigned short> {
  using Type = unsigned;
};
template <>
struct Wide<signed char> {
  using Type = unsigned;
};
template <>
struct Wide<short> {
  using Type = unsigned;
};
template <>
struct Wide<int> {
  using Type = unsigned;
};
template <>
struct Wide<long long> {
  using Type = unsigned long long;
};

// The operators, as <rondo/op.hpp> defines them. `a` stands on the left.

struct Sum {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    using W = typename Wide<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};

struct Prod {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    using W = typename Wide<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
  template <typename Part>
  static RONDO_CUDA_INLINE ComplexValue<Part> apply(ComplexValue<Part> a, ComplexValue<Part> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
  }
};

/// A NaN anywhere gives NaN.
struct Min {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

struct Max {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    return a < b || b != b ? b : a;
  }
};

struct Band {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Bor {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Bxor {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

struct Land {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    return static_cast<T>(a != 0 && b != 0);
  }
};

struct Lor {
  template <typename T>
  static RONDO_CUDA_INLINE T apply(T a, T b) {
    return static_cast<T>(a != 0 || b != 0);
  }
};

// What becomes of the folded element. The sum of `avg` is rounded to its type before it is divided.

struct AsItIs {
  template <typename Format>
  static RONDO_CUDA_INLINE typename Format::Stored finish(typename Format::Computed folded, int) {
    return Format::narrow(folded);
  }
};

template <typename T>
RONDO_CUDA_INLINE T quotient(T dividend, int ranks) {
  return static_cast<T>(dividend / static_cast<T>(ranks));
}
// Narrow integers are divided as int: the number of ranks need not fit them.
RONDO_CUDA_INLINE signed char quotient(signed char dividend, int ranks) {
  return static_cast<signed char>(dividend / ranks);
}
RONDO_CUDA_INLINE unsigned char quotient(unsigned char dividend, int ranks) {
  return static_cast<unsigned char>(dividend / ranks);
}
RONDO_CUDA_INLINE short quotient(short dividend, int ranks) { return static_cast<short>(dividend / ranks); }
RONDO_CUDA_INLINE unsigned short quotient(unsigned short dividend, int ranks) {
  return static_cast<unsigned short>(dividend / ranks);
}

struct Divided {
  template <typename Format>
  static RONDO_CUDA_INLINE typename Format::Stored finish(typename Format::Computed folded, int ranks) {
    return Format::narrow(quotient(Format::widen(Format::narrow(folded)), ranks));
  }
};

/// Packs of one input that a thread asks for before it uses the first: a few dozen KiB in flight for each
/// multiprocessor are needed to keep its memory busy.
inline constexpr unsigned kUnroll = 4;

/// One element or a pack of them, which lie at a multiple of `alignment`.
template <typename Stored, unsigned elements, unsigned alignment>
struct Unit {
  static constexpr unsigned kElements = elements;
  static constexpr unsigned kBytes = elements * sizeof(Stored);

  Stored element[elements];

  static RONDO_CUDA_INLINE Unit load(const void* base, unsigned long long place) {
    Unit unit;
    const char* const from = static_cast<const char*>(base) + place;
    __builtin_memcpy(&unit, __builtin_assume_aligned(from, alignment), sizeof(Unit));
    return unit;
  }
  RONDO_CUDA_INLINE void store(void* base, unsigned long long place) const {
    char* const to = static_cast<char*>(base) + place;
    __builtin_memcpy(__builtin_assume_aligned(to, alignment), this, sizeof(Unit));
  }
};
template <typename Stored>
using Single = Unit<Stored, 1, alignof(Stored)>;
template <typename Stored>
using Pack = Unit<Stored, kPackBytes / sizeof(Stored), kPackBytes>;

/// Where the packs lie in a buffer: behind `head` bytes, `count` of them. Single elements lie before and behind.
struct Packs {
  unsigned long long head;
  unsigned long long count;
};

RONDO_CUDA_INLINE unsigned long long place_in_pack(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % kPackBytes;
}

/// No packs where not all buffers lie alike. `differ`: whether they do not.
RONDO_CUDA_INLINE Packs packs_of(const void* first, bool differ, unsigned element_bytes, unsigned long long bytes) {
  const unsigned long long head = (kPackBytes - place_in_pack(first)) % kPackBytes;
  if (differ || head % element_bytes != 0 || head >= bytes) return {bytes, 0};
  return {head, (bytes - head) / kPackBytes};
}

/// Calls `body(place)` for each single element of this lane, by its place in bytes.
template <unsigned element_bytes, typename Body>
RONDO_CUDA_INLINE void for_singles(const Packs& packs, unsigned long long bytes, Lane lane, const Body& body) {
  const unsigned long long packed = packs.count * kPackBytes;
  for (unsigned long long place = lane.index * element_bytes; place < bytes - packed;
       place += lane.count * element_bytes) {
    body(place < packs.head ? place : place + packed);
  }
}

/// Folds `units` units at once, each `stride` bytes behind the one before, as far as they begin before `end`.
/// `known_inputs`: how many there are, where that is known; 0 where not.
template <typename Format, typename Op, typename Finish, unsigned known_inputs, typename U, unsigned units>
RONDO_CUDA_INLINE void fold(const DirectArguments& a, unsigned long long begin, unsigned long long stride,
                            unsigned long long end) {
  typename Format::Computed folded[units][U::kElements] = {};
  U loaded[units] = {};
  const unsigned input_count = known_inputs > 0 ? known_inputs : a.input_count;
  RONDO_CUDA_UNROLL_BY(known_inputs > 0 ? known_inputs : 1)
  for (unsigned k = 0; k < input_count; ++k) {
    RONDO_CUDA_UNROLL
    for (unsigned u = 0; u < units; ++u) {
      if (begin + u * stride < end) loaded[u] = U::load(a.inputs[k], begin + u * stride);
    }
    RONDO_CUDA_UNROLL
    for (unsigned u = 0; u < units; ++u) {
      RONDO_CUDA_UNROLL
      for (unsigned e = 0; e < U::kElements; ++e) {
        const typename Format::Computed operand = Format::widen(loaded[u].element[e]);
        folded[u][e] = k == 0 ? operand : Op::apply(folded[u][e], operand);
      }
    }
  }
  RONDO_CUDA_UNROLL
  for (unsigned u = 0; u < units; ++u) {
    RONDO_CUDA_UNROLL
    for (unsigned e = 0; e < U::kElements; ++e) {
      loaded[u].element[e] = Finish::template finish<Format>(folded[u][e], a.ranks);
    }
  }
  const unsigned output_count = known_inputs > 0 ? 1 : a.output_count;
  RONDO_CUDA_UNROLL_BY(1)
  for (unsigned o = 0; o < output_count; ++o) {
    RONDO_CUDA_UNROLL
    for (unsigned u = 0; u < units; ++u) {
      if (begin + u * stride < end) loaded[u].store(a.outputs[o], begin + u * stride);
    }
  }
}

/// `known_inputs`: with as many inputs, and one output; 0: as many as `a` says.
template <typename Format, typename Op, typename Finish, unsigned known_inputs = 0, unsigned unroll = kUnroll>
RONDO_CUDA_INLINE void direct_loop(const DirectArguments& a, Lane lane) {
  using Stored = typename Format::Stored;
  bool differ = false;
  const unsigned input_count = known_inputs > 0 ? known_inputs : a.input_count;
  const unsigned output_count = known_inputs > 0 ? 1 : a.output_count;
  RONDO_CUDA_UNROLL_BY(known_inputs > 0 ? known_inputs : 1)
  for (unsigned k = 1; k < input_count; ++k) differ |= place_in_pack(a.inputs[k]) != place_in_pack(a.inputs[0]);
  RONDO_CUDA_UNROLL_BY(1)
  for (unsigned o = 0; o < output_count; ++o) differ |= place_in_pack(a.outputs[o]) != place_in_pack(a.inputs[0]);
  const unsigned long long bytes = a.count * sizeof(Stored);
  const Packs packs = packs_of(a.inputs[0], differ, sizeof(Stored), bytes);

  const unsigned long long end = packs.head + packs.count * kPackBytes;
  const unsigned long long stride = lane.count * kPackBytes;
  for (unsigned long long place = packs.head + lane.index * kPackBytes; place < end; place += unroll * stride) {
    fold<Format, Op, Finish, known_inputs, Pack<Stored>, unroll>(a, place, stride, end);
  }
  for_singles<sizeof(Stored)>(packs, bytes, lane, [&](unsigned long long place) {
    fold<Format, Op, Finish, known_inputs, Single<Stored>, 1>(a, place, 0, bytes);
  });
}

template <typename Format, typename Op>
RONDO_CUDA_INLINE void combine_loop(const CombineArguments& a, Lane lane) {
  DirectArguments two{};
  two.inputs[0] = a.left;
  two.inputs[1] = a.right;
  two.outputs[0] = a.into;
  two.count = a.count;
  direct_loop<Format, Op, AsItIs, 2>(two, lane);
}

template <typename Format>
RONDO_CUDA_INLINE void divide_loop(const DivideArguments& a, Lane lane) {
  DirectArguments one{};
  one.inputs[0] = a.data;
  one.outputs[0] = a.data;
  one.count = a.count;
  one.ranks = a.ranks;
  direct_loop<Format, Sum, Divided, 1>(one, lane);
}

template <typename Stored>
RONDO_CUDA_INLINE void move_elements(const Move& move, Lane lane) {
  DirectArguments one{};
  one.inputs[0] = move.from;
  one.outputs[0] = move.to;
  one.count = move.bytes / sizeof(Stored);
  direct_loop<Plain<Stored>, Bor, AsItIs, 1>(one, lane);
}

RONDO_CUDA_INLINE void move_loop(const MoveArguments& a, Lane lane) {
  const unsigned long long of_group = lane.count / a.groups;
  const Lane member{lane.index % of_group, of_group};
  for (unsigned long long m = lane.index / of_group; m < a.count; m += a.groups) {
    const Move& move = a.moves[m];
    const auto places =
        reinterpret_cast<unsigned long long>(move.from) | reinterpret_cast<unsigned long long>(move.to) | move.bytes;
    places % sizeof(unsigned) == 0 ? move_elements<unsigned>(move, member) : move_elements<unsigned char>(move, member);
  }
}

// The names in kernel_list.hpp. How float16 and bfloat16 become float and back, each compiler says for itself.
using Format_u8 = Plain<unsigned char>;
using Format_u16 = Plain<unsigned short>;
using Format_u32 = Plain<unsigned>;
using Format_u64 = Plain<unsigned long long>;
using Format_i8 = Plain<signed char>;
using Format_i16 = Plain<short>;
using Format_i32 = Plain<int>;
using Format_i64 = Plain<long long>;
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

}  // namespace rondo::cuda
