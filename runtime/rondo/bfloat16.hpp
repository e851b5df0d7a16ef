#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

#include <rondo/small_float.hpp>

namespace rondo {

/// The upper half of a float: 1 sign, 8 exponent, 7 fraction bits. The range of float, about 2.4 decimal
/// digits.
///
/// Made explicitly from any number, rounded to nearest even; converts to float by itself and exactly.
class bfloat16 {
 public:
  constexpr bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits_(round(value)) {}
  template <typename Number>
  requires(std::integral<Number> || std::floating_point<Number>) constexpr explicit bfloat16(Number value)
      : bfloat16(detail::round_to_odd(detail::as_double(value))) {}

  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 value{};
    value.bits_ = bits;
    return value;
  }
  constexpr std::uint16_t bits() const { return bits_; }

  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t{bits_} << 16); }

 private:
  static constexpr std::uint16_t round(float value);

  std::uint16_t bits_;
};

constexpr std::uint16_t bfloat16::round(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  const auto all = std::bit_cast<std::uint32_t>(value);
  // Half of the last kept bit, less one where that bit is even: a tie then stays put or carries to the even
  // neighbour.
  const std::uint32_t rounded = (all + 0x7fffU + ((all >> 16) & 1U)) >> 16;
  const std::uint32_t quiet_nan = (all >> 16) | 0x40U;
  return static_cast<std::uint16_t>((all & 0x7fffffffU) > kInfinity ? quiet_nan : rounded);
}

}  // namespace rondo

template <>
class std::numeric_limits<rondo::bfloat16> : public std::numeric_limits<float> {
 public:
  static constexpr bool is_iec559 = false;
  static constexpr int digits = 8;
  static constexpr int digits10 = 2;
  static constexpr int max_digits10 = 4;
  static constexpr rondo::bfloat16 min() { return rondo::bfloat16::from_bits(0x0080); }
  static constexpr rondo::bfloat16 lowest() { return rondo::bfloat16::from_bits(0xff7f); }
  static constexpr rondo::bfloat16 max() { return rondo::bfloat16::from_bits(0x7f7f); }
  static constexpr rondo::bfloat16 epsilon() { return rondo::bfloat16::from_bits(0x3c00); }
  static constexpr rondo::bfloat16 round_error() { return rondo::bfloat16::from_bits(0x3f00); }
  static constexpr rondo::bfloat16 denorm_min() { return rondo::bfloat16::from_bits(0x0001); }
  static constexpr rondo::bfloat16 infinity() { return rondo::bfloat16::from_bits(0x7f80); }
  static constexpr rondo::bfloat16 quiet_NaN() { return rondo::bfloat16::from_bits(0x7fc0); }
  static constexpr rondo::bfloat16 signaling_NaN() { return rondo::bfloat16::from_bits(0x7fa0); }
};
