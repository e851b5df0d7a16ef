// The loops of the predefined operators, compiled once for each instruction set; RONDO_KERNELS names the table that
// they end in. None of this code but the table chosen for a processor may run there, yet of equal inline functions in
// several objects the linker keeps any one. So nothing here has external linkage but the table: all is in the anonymous
// namespace and no inline function of elsewhere is used, neither of the standard library nor of rondo (float16 and the
// operators, say). A test holds the objects to it.
//
// The vectors are those of g++ and clang, whose operators work lane by lane. Nothing is reassociated, nor (the build
// says -ffp-contract=off) fused, so every instruction set computes what a plain loop would.

#include "collectives/reduction_kernels.hpp"

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#ifdef __F16C__
#include <immintrin.h>
#endif

#define RONDO_INLINE [[gnu::always_inline]] inline

namespace rondo::detail {
namespace {

#if defined(__AVX512BW__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif
constexpr std::size_t kNarrowVectorBytes = 16;
/// Vectors in flight: enough to hide the latency of an operator and of the loop over the inputs.
constexpr std::size_t kUnroll = 4;

template <typename T, std::size_t lanes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(lanes * sizeof(T))));
};
template <typename T, std::size_t lanes>
using Vector = typename VectorOf<T, lanes>::Type;
template <std::size_t lanes>
using Floats = Vector<float, lanes>;
template <std::size_t lanes>
using Words = Vector<std::uint32_t, lanes>;
template <std::size_t lanes>
using Halves = Vector<std::uint16_t, lanes>;

// A format says how elements lie in memory (`Stored`) and in which lanes they are computed (`Lane`).

template <typename T>
struct Plain {
  using Stored = T;
  using Lane = T;
  static constexpr std::size_t kElementLanes = 1;

  template <std::size_t lanes>
  RONDO_INLINE static Vector<T, lanes> widen(Vector<T, lanes> stored) {
    return stored;
  }
  template <std::size_t lanes>
  RONDO_INLINE static Vector<T, lanes> narrow(Vector<T, lanes> computed) {
    return computed;
  }
};

/// std::byte and bool: of the operators they take fewer.
struct Byte : Plain<std::uint8_t> {};
struct Truth : Plain<std::uint8_t> {};

/// Real and imaginary parts in turn.
template <typename Part>
struct Complex : Plain<Part> {
  static constexpr std::size_t kElementLanes = 2;
};

/// What `bfloat16` does: the upper half of a float, rounded to nearest even, a NaN made quiet.
struct Brain {
  using Stored = std::uint16_t;
  using Lane = float;
  static constexpr std::size_t kElementLanes = 1;

  template <std::size_t lanes>
  RONDO_INLINE static Floats<lanes> widen(Halves<lanes> stored) {
    return reinterpret_cast<Floats<lanes>>(__builtin_convertvector(stored, Words<lanes>) << 16);
  }
  template <std::size_t lanes>
  RONDO_INLINE static Halves<lanes> narrow(Floats<lanes> computed) {
    const auto all = reinterpret_cast<Words<lanes>>(computed);
    const Words<lanes> rounded = all + 0x7fffU + ((all >> 16) & 1U);
    const Words<lanes> result = computed == computed ? rounded : all | 0x400000U;
    return __builtin_convertvector(result >> 16, Halves<lanes>);
  }
};

/// The processor's own conversions of float16, for its widest vectors.
template <std::size_t lanes>
struct Converter {
  static constexpr bool exists = false;
};
#if defined(__AVX512BW__)
template <>
struct Converter<16> {
  static constexpr bool exists = true;
  static constexpr __mmask16 kAll = 0xffff;
  RONDO_INLINE static Floats<16> widen(Halves<16> stored) {
    return _mm512_maskz_cvtph_ps(kAll, reinterpret_cast<__m256i>(stored));
  }
  RONDO_INLINE static Halves<16> narrow(Floats<16> computed) {
    return reinterpret_cast<Halves<16>>(_mm512_maskz_cvtps_ph(kAll, computed, _MM_FROUND_TO_NEAREST_INT));
  }
};
#elif defined(__F16C__)
template <>
struct Converter<8> {
  static constexpr bool exists = true;
  RONDO_INLINE static Floats<8> widen(Halves<8> stored) { return _mm256_cvtph_ps(reinterpret_cast<__m128i>(stored)); }
  RONDO_INLINE static Halves<8> narrow(Floats<8> computed) {
    return reinterpret_cast<Halves<8>>(_mm256_cvtps_ph(computed, _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif

/// What `float16` does, step by step where the processor does not.
struct Half {
  using Stored = std::uint16_t;
  using Lane = float;
  static constexpr std::size_t kElementLanes = 1;

  template <std::size_t lanes>
  RONDO_INLINE static Floats<lanes> widen(Halves<lanes> stored) {
    if constexpr (Converter<lanes>::exists) {
      return Converter<lanes>::widen(stored);
    } else {
      const auto bits = __builtin_convertvector(stored, Words<lanes>);
      const Words<lanes> sign = (bits & 0x8000U) << 16;
      const Words<lanes> magnitude = (bits & 0x7fffU) << 13;
      // As a float the magnitude is too small by 2^112, exactly, subnormals too; infinity and NaN are so once more.
      const Floats<lanes> scaled = reinterpret_cast<Floats<lanes>>(magnitude) * 0x1p112F;
      const auto special = reinterpret_cast<Words<lanes>>(scaled) | 0x7f800000U;
      return reinterpret_cast<Floats<lanes>>(sign |
                                             (scaled >= 0x1p16F ? special : reinterpret_cast<Words<lanes>>(scaled)));
    }
  }
  template <std::size_t lanes>
  RONDO_INLINE static Halves<lanes> narrow(Floats<lanes> computed) {
    if constexpr (Converter<lanes>::exists) {
      return Converter<lanes>::narrow(computed);
    } else {
      const auto all = reinterpret_cast<Words<lanes>>(computed);
      const Words<lanes> sign = (all >> 16) & 0x8000U;
      const auto magnitude = reinterpret_cast<Vector<std::int32_t, lanes>>(all & 0x7fffffffU);
      const auto absolute = reinterpret_cast<Floats<lanes>>(magnitude);
      const auto word = reinterpret_cast<Words<lanes>>(magnitude);
      // Adding 0.5, whose last bit weighs 2^-24 as a subnormal's does, makes the float unit round one.
      const Words<lanes> subnormal = reinterpret_cast<Words<lanes>>(absolute + 0.5F) - 0x3f000000U;
      const Words<lanes> normal = (word - (112U << 23) + 0xfffU + ((word >> 13) & 1U)) >> 13;
      const Words<lanes> finite = absolute < 0x1p-14F ? subnormal : normal;
      const Words<lanes> special = computed == computed ? Words<lanes>{} + 0x7c00U : 0x7e00U | ((word >> 13) & 0x3ffU);
      return __builtin_convertvector(sign | (absolute < 0x1p16F ? finite : special), Halves<lanes>);
    }
  }
};

template <typename Format>
constexpr bool takes(ReduceKind kind) {
  constexpr bool byte = std::is_same_v<Format, Byte>;
  constexpr bool integer = std::is_integral_v<typename Format::Lane>;
  constexpr bool number = !byte && !std::is_same_v<Format, Truth>;
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::prod:
    case ReduceKind::avg: return number;
    case ReduceKind::min:
    case ReduceKind::max: return number && Format::kElementLanes == 1;
    case ReduceKind::band:
    case ReduceKind::bor:
    case ReduceKind::bxor: return integer;
    case ReduceKind::land:
    case ReduceKind::lor: return integer && !byte;
    case ReduceKind::none:
    case ReduceKind::custom: break;
  }
  return false;
}

template <typename V, int... lane>
RONDO_INLINE V multiply_complex(V a, V b, std::integer_sequence<int, lane...>) {
  constexpr int lanes = sizeof...(lane);
  const V real = __builtin_shufflevector(a, a, (lane & ~1)...) * b;
  const V imaginary = __builtin_shufflevector(a, a, (lane | 1)...) * __builtin_shufflevector(b, b, (lane ^ 1)...);
  return __builtin_shufflevector(real - imaginary, imaginary + real, (lane % 2 == 0 ? lane : lanes + lane)...);
}

/// The operators as `Sum` and the others define them. `a` stands on the left.
template <typename Format, ReduceKind kind, typename V>
RONDO_INLINE V apply(V a, V b) {
  if constexpr (kind == ReduceKind::sum) return a + b;
  if constexpr (kind == ReduceKind::prod && Format::kElementLanes == 2) {
    return multiply_complex(a, b, std::make_integer_sequence<int, sizeof(V) / sizeof(typename Format::Lane)>());
  } else if constexpr (kind == ReduceKind::prod) {
    return a * b;
  }
  if constexpr (kind == ReduceKind::min || kind == ReduceKind::max) {
    V better;
    if constexpr (kind == ReduceKind::min) better = b < a ? b : a;
    if constexpr (kind == ReduceKind::max) better = a < b ? b : a;
    if constexpr (std::is_floating_point_v<typename Format::Lane>) better = b == b ? better : b;
    return better;
  }
  if constexpr (kind == ReduceKind::band) return a & b;
  if constexpr (kind == ReduceKind::bor) return a | b;
  if constexpr (kind == ReduceKind::bxor) return a ^ b;
  if constexpr (kind == ReduceKind::land) return reinterpret_cast<V>((a != 0) & (b != 0)) & 1;
  if constexpr (kind == ReduceKind::lor) return reinterpret_cast<V>((a | b) != 0) & 1;
}

template <typename Format, std::size_t lanes>
RONDO_INLINE Vector<typename Format::Lane, lanes> load(const std::byte* from) {
  Vector<typename Format::Stored, lanes> stored;
  std::memcpy(&stored, from, sizeof(stored));
  return Format::template widen<lanes>(stored);
}

/// Folds while `vectors` times `lanes` lanes are left between `at` and `end`; returns where it stopped.
template <typename Format, ReduceKind kind, std::size_t vectors, std::size_t lanes>
RONDO_INLINE std::size_t fold_lanes(const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                                    std::size_t at, std::size_t end) {
  using Lanes = Vector<typename Format::Lane, lanes>;
  constexpr std::size_t vector_bytes = lanes * sizeof(typename Format::Stored);
  for (; end - at >= vectors * vector_bytes; at += vectors * vector_bytes) {
    Lanes result[vectors];
    for (std::size_t v = 0; v < vectors; ++v) result[v] = load<Format, lanes>(inputs[0] + at + v * vector_bytes);
    for (std::size_t k = 1; k < input_count; ++k) {
      const std::byte* const input = inputs[k] + at;
      for (std::size_t v = 0; v < vectors; ++v) {
        result[v] = apply<Format, kind, Lanes>(result[v], load<Format, lanes>(input + v * vector_bytes));
      }
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      const auto stored = Format::template narrow<lanes>(result[v]);
      std::memcpy(into + at + v * vector_bytes, &stored, sizeof(stored));
    }
  }
  return at;
}

template <typename Format, ReduceKind kind>
RONDO_INLINE void fold_inputs(const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                              std::size_t bytes) {
  using Lane = typename Format::Lane;
  std::size_t at = fold_lanes<Format, kind, kUnroll, kVectorBytes / sizeof(Lane)>(inputs, input_count, into, 0, bytes);
  at = fold_lanes<Format, kind, 1, kNarrowVectorBytes / sizeof(Lane)>(inputs, input_count, into, at, bytes);
  fold_lanes<Format, kind, 1, Format::kElementLanes>(inputs, input_count, into, at, bytes);
}

template <typename Format, ReduceKind kind>
void fold(void*, const std::byte* const* inputs, std::size_t input_count, std::byte* into, std::size_t count) {
  const std::size_t bytes = count * Format::kElementLanes * sizeof(typename Format::Stored);
  if (input_count == 1) {
    if (inputs[0] != into && bytes > 0) std::memcpy(into, inputs[0], bytes);
  } else if (input_count == 2) {
    const std::byte* const two[] = {inputs[0], inputs[1]};
    fold_inputs<Format, kind>(two, 2, into, bytes);
  } else {
    fold_inputs<Format, kind>(inputs, input_count, into, bytes);
  }
}

/// An operator on elements that is one on their `parts`.
template <typename Format, ReduceKind kind, std::size_t parts>
void fold_parts(void* state, const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                std::size_t count) {
  fold<Format, kind>(state, inputs, input_count, into, parts * count);
}

/// The loop for elements of a format; equal loops are shared.
template <typename Format, ReduceKind kind>
constexpr Fold kernel() {
  using Lane = typename Format::Lane;
  if constexpr (!takes<Format>(kind)) {
    return nullptr;
  } else if constexpr (kind == ReduceKind::avg) {
    return kernel<Format, ReduceKind::sum>();
  } else if constexpr (kind == ReduceKind::band || kind == ReduceKind::bor || kind == ReduceKind::bxor) {
    return sizeof(Lane) == 1 ? &fold<Byte, kind> : &fold_parts<Byte, kind, sizeof(Lane)>;
  } else if constexpr (kind == ReduceKind::min || kind == ReduceKind::max) {
    return &fold<Format, kind>;
  } else if constexpr (std::is_integral_v<Lane>) {
    return &fold<Plain<std::make_unsigned_t<Lane>>, kind>;
  } else if constexpr (Format::kElementLanes == 2 && kind == ReduceKind::sum) {
    return &fold_parts<Plain<Lane>, kind, 2>;
  } else {
    return &fold<Format, kind>;
  }
}

/// In the order of ElementType.
using Formats = std::tuple<Byte, Plain<std::int8_t>, Plain<std::int16_t>, Plain<std::int32_t>, Plain<std::int64_t>,
                           Plain<std::uint8_t>, Plain<std::uint16_t>, Plain<std::uint32_t>, Plain<std::uint64_t>, Half,
                           Brain, Plain<float>, Plain<double>, Complex<float>, Complex<double>, Truth>;
static_assert(std::tuple_size_v<Formats> == kElementTypes);

template <std::size_t... cell>
consteval Kernels every_kernel(std::index_sequence<cell...>) {
  Kernels kernels{};
  ((kernels.fold[cell / kReduceKinds][cell % kReduceKinds] =
        kernel<std::tuple_element_t<cell / kReduceKinds, Formats>, static_cast<ReduceKind>(cell % kReduceKinds)>()),
   ...);
  return kernels;
}

}  // namespace

constinit const Kernels RONDO_KERNELS = every_kernel(std::make_index_sequence<kElementTypes * kReduceKinds>());

}  // namespace rondo::detail
