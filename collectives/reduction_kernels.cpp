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

// A format says how elements lie in memory (`Stored` lanes), and in which lanes they are computed: how many there are
// in a vector, and how `lanes` of them become what `apply` takes.

template <typename T>
struct Plain {
  using Stored = T;
  using Lane = T;
  static constexpr std::size_t kElementLanes = 1;
  static constexpr std::size_t kVectorLanes = kVectorBytes / sizeof(T);

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

/// Every other 16-bit float of a vector, so that no lane need move to another place: the lower and the upper halves of
/// its words.
template <std::size_t words>
struct Split {
  Floats<words> lower;
  Floats<words> upper;
};

constexpr std::uint32_t kUpperHalf = 0xffff0000U;

/// 16-bit floats. `Conversion` takes them in the upper halves of words, with zeros below, and leaves them there, with
/// anything below. A single lane is one float.
template <typename Conversion>
struct Small {
  using Stored = std::uint16_t;
  using Lane = float;
  static constexpr std::size_t kElementLanes = 1;
  static constexpr std::size_t kVectorLanes = kVectorBytes / sizeof(Stored);

  template <std::size_t lanes>
  RONDO_INLINE static auto widen(Halves<lanes> stored) {
    if constexpr (lanes == 1) {
      return Conversion::template widen<1>(Words<1>{stored[0]} << 16);
    } else {
      const auto words = reinterpret_cast<Words<lanes / 2>>(stored);
      return Split<lanes / 2>{Conversion::template widen<lanes / 2>(words << 16),
                              Conversion::template widen<lanes / 2>(words & kUpperHalf)};
    }
  }
  template <std::size_t lanes, typename Computed>
  RONDO_INLINE static Halves<lanes> narrow(const Computed& computed) {
    if constexpr (lanes == 1) {
      return Halves<1>{static_cast<std::uint16_t>(Conversion::template narrow<1>(computed)[0] >> 16)};
    } else {
      const Words<lanes / 2> lower = Conversion::template narrow<lanes / 2>(computed.lower);
      const Words<lanes / 2> upper = Conversion::template narrow<lanes / 2>(computed.upper);
      return reinterpret_cast<Halves<lanes>>(lower >> 16 | (upper & kUpperHalf));
    }
  }
};

/// What `bfloat16` does: the upper half of a float, rounded to nearest even. A NaN that comes from 16 bits has zeros
/// below them, and so rounds to itself.
struct BrainConversion {
  template <std::size_t lanes>
  RONDO_INLINE static Floats<lanes> widen(Words<lanes> stored) {
    return reinterpret_cast<Floats<lanes>>(stored);
  }
  template <std::size_t lanes>
  RONDO_INLINE static Words<lanes> narrow(Floats<lanes> computed) {
    const auto all = reinterpret_cast<Words<lanes>>(computed);
    return all + 0x7fffU + ((all >> 16) & 1U);
  }
};
using Brain = Small<BrainConversion>;

/// What `float16` does.
struct HalfConversion {
  template <std::size_t lanes>
  RONDO_INLINE static Floats<lanes> widen(Words<lanes> stored) {
    const Words<lanes> sign = stored & 0x80000000U;
    const Words<lanes> magnitude = (stored & 0x7fffffffU) >> 3;
    // As a float the magnitude is too small by 2^112, exactly, subnormals too; infinity and NaN then need their
    // exponent.
    const Floats<lanes> scaled = reinterpret_cast<Floats<lanes>>(magnitude) * 0x1p112F;
    const auto finite = reinterpret_cast<Words<lanes>>(scaled);
    return reinterpret_cast<Floats<lanes>>(sign | finite |
                                           (scaled >= 0x1p16F ? Words<lanes>{} + 0x7f800000U : Words<lanes>{}));
  }
  template <std::size_t lanes>
  RONDO_INLINE static Words<lanes> narrow(Floats<lanes> computed) {
    const auto all = reinterpret_cast<Words<lanes>>(computed);
    const Words<lanes> sign = all & 0x80000000U;
    const Words<lanes> magnitude = all & 0x7fffffffU;
    const auto absolute = reinterpret_cast<Floats<lanes>>(magnitude);
    // Adding 0.5, whose last bit weighs 2^-24 as a subnormal's does, makes the float unit round one.
    const Words<lanes> subnormal = (reinterpret_cast<Words<lanes>>(absolute + 0.5F) - 0x3f000000U) << 16;
    const Words<lanes> normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) << 3;
    const Words<lanes> finite = absolute < 0x1p-14F ? subnormal : normal;
    const Words<lanes> nan = (magnitude & 0x7fffffU) << 3 | 0x7e000000U;
    const Words<lanes> special = computed == computed ? Words<lanes>{} + 0x7c000000U : nan;
    return sign | (absolute < 0x1p16F ? finite : special);
  }
};

/// The processor's own conversions of float16, which give the same.
template <std::size_t lanes>
struct Converter {
  static constexpr bool exists = false;
};
#ifdef __F16C__
template <>
struct Converter<8> {
  static constexpr bool exists = true;
  RONDO_INLINE static Floats<8> widen(Halves<8> stored) { return _mm256_cvtph_ps(reinterpret_cast<__m128i>(stored)); }
  RONDO_INLINE static Halves<8> narrow(Floats<8> computed) {
    return reinterpret_cast<Halves<8>>(_mm256_cvtps_ph(computed, _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif
#ifdef __AVX512BW__
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
#endif

struct Half : Small<HalfConversion> {
  static constexpr bool kConverts = Converter<kVectorBytes / sizeof(Lane)>::exists;
  static constexpr std::size_t kVectorLanes = kVectorBytes / (kConverts ? sizeof(Lane) : sizeof(Stored));

  template <std::size_t lanes>
  RONDO_INLINE static auto widen(Halves<lanes> stored) {
    if constexpr (Converter<lanes>::exists) {
      return Converter<lanes>::widen(stored);
    } else {
      return Small::widen<lanes>(stored);
    }
  }
  template <std::size_t lanes, typename Computed>
  RONDO_INLINE static Halves<lanes> narrow(const Computed& computed) {
    if constexpr (Converter<lanes>::exists) {
      return Converter<lanes>::narrow(computed);
    } else {
      return Small::narrow<lanes>(computed);
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

template <typename Format, ReduceKind kind, std::size_t words>
RONDO_INLINE Split<words> apply(const Split<words>& a, const Split<words>& b) {
  return {apply<Format, kind>(a.lower, b.lower), apply<Format, kind>(a.upper, b.upper)};
}

template <typename Format, std::size_t lanes>
RONDO_INLINE auto load(const std::byte* from) {
  Vector<typename Format::Stored, lanes> stored;
  std::memcpy(&stored, from, sizeof(stored));
  return Format::template widen<lanes>(stored);
}

template <typename Format, std::size_t lanes, typename Computed>
RONDO_INLINE void store(const Computed& computed, std::byte* to) {
  const Vector<typename Format::Stored, lanes> stored = Format::template narrow<lanes>(computed);
  std::memcpy(to, &stored, sizeof(stored));
}

/// Folds while `vectors` times `lanes` are left between the bytes `at` and `end`; returns where it stopped.
template <typename Format, ReduceKind kind, std::size_t vectors, std::size_t lanes>
RONDO_INLINE std::size_t fold_lanes(const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                                    std::size_t at, std::size_t end) {
  constexpr std::size_t vector_bytes = lanes * sizeof(typename Format::Stored);
  for (; end - at >= vectors * vector_bytes; at += vectors * vector_bytes) {
    decltype(load<Format, lanes>(into)) folded[vectors];
    for (std::size_t v = 0; v < vectors; ++v) folded[v] = load<Format, lanes>(inputs[0] + at + v * vector_bytes);
    for (std::size_t k = 1; k < input_count; ++k) {
      const std::byte* const input = inputs[k] + at;
      for (std::size_t v = 0; v < vectors; ++v) {
        folded[v] = apply<Format, kind>(folded[v], load<Format, lanes>(input + v * vector_bytes));
      }
    }
    for (std::size_t v = 0; v < vectors; ++v) store<Format, lanes>(folded[v], into + at + v * vector_bytes);
  }
  return at;
}

template <typename Format, ReduceKind kind>
RONDO_INLINE void fold_inputs(const std::byte* const* inputs, std::size_t input_count, std::byte* into,
                              std::size_t bytes) {
  constexpr std::size_t narrow_lanes = kNarrowVectorBytes / sizeof(typename Format::Stored);
  std::size_t at = fold_lanes<Format, kind, kUnroll, Format::kVectorLanes>(inputs, input_count, into, 0, bytes);
  at = fold_lanes<Format, kind, 1, narrow_lanes>(inputs, input_count, into, at, bytes);
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

/// Integers of up to 32 bits are divided in floating point, which vectors do and which is exact: a quotient that is not
/// whole is further from the next integer than it is rounded.
template <typename T>
using Quotient = std::conditional_t<std::is_floating_point_v<T> || sizeof(T) == 8, T,
                                    std::conditional_t<sizeof(T) == 4, double, float>>;

template <typename T>
void divide_plain(std::byte* data, std::size_t count, int ranks) {
  const auto divisor = static_cast<Quotient<T>>(ranks);
  for (std::size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, data + i * sizeof(T), sizeof(T));
    element = static_cast<T>(static_cast<Quotient<T>>(element) / divisor);
    std::memcpy(data + i * sizeof(T), &element, sizeof(T));
  }
}

template <std::size_t words>
RONDO_INLINE Split<words> operator/(const Split<words>& dividend, float divisor) {
  return {dividend.lower / divisor, dividend.upper / divisor};
}

template <typename Format, std::size_t lanes>
RONDO_INLINE std::size_t divide_lanes(std::byte* data, std::size_t at, std::size_t end, float divisor) {
  constexpr std::size_t step = lanes * sizeof(typename Format::Stored);
  for (; end - at >= step; at += step) store<Format, lanes>(load<Format, lanes>(data + at) / divisor, data + at);
  return at;
}

template <typename Format>
void divide(std::byte* data, std::size_t count, int ranks) {
  using Lane = typename Format::Lane;
  using Stored = typename Format::Stored;
  if constexpr (std::is_same_v<Lane, Stored>) {
    divide_plain<Lane>(data, count * Format::kElementLanes, ranks);
  } else {
    const auto divisor = static_cast<float>(ranks);
    const std::size_t at = divide_lanes<Format, Format::kVectorLanes>(data, 0, count * sizeof(Stored), divisor);
    divide_lanes<Format, 1>(data, at, count * sizeof(Stored), divisor);
  }
}

template <typename Format>
constexpr Divide divider() {
  if constexpr (takes<Format>(ReduceKind::avg)) return &divide<Format>;
  return nullptr;
}

/// The loop for elements of a format; equal loops are shared.
template <typename Format, ReduceKind kind>
constexpr FoldKernel kernel() {
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

template <std::size_t... type, std::size_t... cell>
consteval Kernels every_kernel(std::index_sequence<type...>, std::index_sequence<cell...>) {
  Kernels kernels{};
  ((kernels.divide[type] = divider<std::tuple_element_t<type, Formats>>()), ...);
  ((kernels.fold[cell / kReduceKinds][cell % kReduceKinds] =
        kernel<std::tuple_element_t<cell / kReduceKinds, Formats>, static_cast<ReduceKind>(cell % kReduceKinds)>()),
   ...);
  return kernels;
}

}  // namespace

constinit const Kernels RONDO_KERNELS =
    every_kernel(std::make_index_sequence<kElementTypes>(), std::make_index_sequence<kElementTypes * kReduceKinds>());

}  // namespace rondo::detail
