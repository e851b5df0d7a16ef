// How elements of each type lie in vectors: for reduction_kernels.cpp alone, and in the anonymous namespace for the
// reason that it gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

}  // namespace
}  // namespace rondo::detail
