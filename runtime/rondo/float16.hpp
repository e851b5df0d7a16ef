#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include <rondo/small_float.hpp>

namespace rondo {

/// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. Largest 65504, smallest normal 2^-14, subnormals
/// to 2^-24.
///
/// Made explicitly from any number, rounded to nearest even; converts to float by itself and exactly.
class float16 {
 public:
  constexpr float16() = default;
  constexpr explicit float16(float value) : bits_(round(value)) {}
  template <typename Number>
  requires(std::integral<Number> || std::floating_point<Number>) constexpr explicit float16(Number value)
      : float16(detail::round_to_odd(detail::as_double(value))) {}

  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 value{};
    value.bits_ = bits;
    return value;
  }
  constexpr std::uint16_t bits() const { return bits_; }

  constexpr operator float() const { return widen(bits_); }

 private:
  static constexpr std::uint16_t round(float value);
  static constexpr float widen(std::uint16_t bits);

  std::uint16_t bits_;
};

namespace detail {

/// `yes` or `no` without a branch that a compiler could move their floating-point arithmetic into: it would
/// then not vectorise the loop around, for fear of a trap.
constexpr std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return no ^ ((yes ^ no) & mask);
}

/// For values below 2^31, of which vector units compare the signed kind only.
constexpr bool less(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b);
}

}  // namespace detail

// Exponents are biased by 127 in a float and by 15 here, so by 112 more; fractions differ by 13 bits.

constexpr std::uint16_t float16::round(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  constexpr std::uint32_t kTooLarge = (127U + 16U) << 23;        // 2^16: infinite here whatever the fraction
  constexpr std::uint32_t kSmallestNormal = (127U - 14U) << 23;  // 2^-14
  constexpr std::uint32_t kHalf = (127U - 1U) << 23;  // 0.5, whose last bit weighs 2^-24 as a subnormal's does

  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16) & 0x8000U;
  const std::uint32_t magnitude = all & 0x7fffffffU;

  // Adding 0.5 makes the float unit round a subnormal; the carry of a normal's rounding runs into its
  // exponent, and from the largest one into infinity, as it should.
  const std::uint32_t small = detail::select(detail::less(magnitude, kSmallestNormal), magnitude, 0U);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(small) + 0.5F) - kHalf;
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + odd) >> 13;
  const std::uint32_t quiet_nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);

  std::uint32_t result = detail::select(detail::less(magnitude, kSmallestNormal), subnormal, normal);
  result = detail::select(detail::less(magnitude, kTooLarge), result, 0x7c00U);
  result = detail::select(detail::less(kInfinity, magnitude), quiet_nan, result);
  return static_cast<std::uint16_t>(sign | result);
}

constexpr float float16::widen(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = (bits & 0x7fffU) << 13;
  constexpr std::uint32_t kFirstNormal = 0x0400U << 13;
  constexpr std::uint32_t kInfinity = 0x7c00U << 13;
  constexpr std::uint32_t kTwoToMinus14 = (127U - 14U) << 23;

  const std::uint32_t normal = magnitude + (112U << 23);
  const std::uint32_t special = magnitude + (224U << 23);
  // A subnormal's fraction, read as that of 2^-14 or more, is too large by just 2^-14.
  const float subnormal =
      std::bit_cast<float>(kTwoToMinus14 | (magnitude & 0x7fffffU)) - std::bit_cast<float>(kTwoToMinus14);

  std::uint32_t result =
      detail::select(detail::less(magnitude, kFirstNormal), std::bit_cast<std::uint32_t>(subnormal), normal);
  result = detail::select(detail::less(magnitude, kInfinity), result, special);
  return std::bit_cast<float>(sign | result);
}

}  // namespace rondo

template <>
class std::numeric_limits<rondo::float16> : public std::numeric_limits<float> {
 public:
  static constexpr int digits = 11;
  static constexpr int digits10 = 3;
  static constexpr int max_digits10 = 5;
  static constexpr int min_exponent = -13;
  static constexpr int min_exponent10 = -4;
  static constexpr int max_exponent = 16;
  static constexpr int max_exponent10 = 4;
  static constexpr rondo::float16 min() { return rondo::float16::from_bits(0x0400); }
  static constexpr rondo::float16 lowest() { return rondo::float16::from_bits(0xfbff); }
  static constexpr rondo::float16 max() { return rondo::float16::from_bits(0x7bff); }
  static constexpr rondo::float16 epsilon() { return rondo::float16::from_bits(0x1400); }
  static constexpr rondo::float16 round_error() { return rondo::float16::from_bits(0x3800); }
  static constexpr rondo::float16 denorm_min() { return rondo::float16::from_bits(0x0001); }
  static constexpr rondo::float16 infinity() { return rondo::float16::from_bits(0x7c00); }
  static constexpr rondo::float16 quiet_NaN() { return rondo::float16::from_bits(0x7e00); }
  static constexpr rondo::float16 signaling_NaN() { return rondo::float16::from_bits(0x7d00); }
};
