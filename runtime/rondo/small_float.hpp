#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

namespace rondo {

class float16;
class bfloat16;

/// The 16-bit floating-point types. They store; arithmetic is done in float and rounded once.
template <typename T>
concept SmallFloat = std::same_as<T, float16> || std::same_as<T, bfloat16>;

template <SmallFloat T>
constexpr T operator-(T value) {
  return T::from_bits(static_cast<std::uint16_t>(value.bits() ^ 0x8000U));
}
template <SmallFloat T>
constexpr T operator+(T a, T b) {
  return T(static_cast<float>(a) + static_cast<float>(b));
}
template <SmallFloat T>
constexpr T operator-(T a, T b) {
  return T(static_cast<float>(a) - static_cast<float>(b));
}
template <SmallFloat T>
constexpr T operator*(T a, T b) {
  return T(static_cast<float>(a) * static_cast<float>(b));
}
template <SmallFloat T>
constexpr T operator/(T a, T b) {
  return T(static_cast<float>(a) / static_cast<float>(b));
}
template <SmallFloat T>
constexpr T& operator+=(T& a, T b) {
  return a = a + b;
}
template <SmallFloat T>
constexpr T& operator-=(T& a, T b) {
  return a = a - b;
}
template <SmallFloat T>
constexpr T& operator*=(T& a, T b) {
  return a = a * b;
}
template <SmallFloat T>
constexpr T& operator/=(T& a, T b) {
  return a = a / b;
}

namespace detail {

/// The float towards zero from `value`, its last bit set where that lost something. A float has more than two
/// bits to spare over the 16-bit types, so rounding this to nearest gives what rounding `value` once would
/// have given.
constexpr float round_to_odd(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (value > kLargest)
    return value > std::numeric_limits<double>::max() ? std::numeric_limits<float>::infinity()
                                                      : std::numeric_limits<float>::max();
  if (value < -kLargest) return -round_to_odd(-value);
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool away_from_zero = (back > value) == (value > 0);
  if (away_from_zero) --bits;
  return std::bit_cast<float>(bits | 1U);
}

/// The same of a number that a double may not hold exactly: it has bits to spare, too.
template <typename Number>
constexpr double as_double(Number value) {
  if constexpr (std::integral<Number> && sizeof(Number) > 4) {
    // Of 64 bits a double has room for all but the last 11.
    constexpr Number kRest = (Number{1} << 11) - 1;
    constexpr Number kExact = Number{1} << 53;
    const bool is_exact = value <= kExact && (std::unsigned_integral<Number> || value >= Number{0} - kExact);
    if (!is_exact && (value & kRest) != 0) value = static_cast<Number>((value & ~kRest) | (kRest + 1));
  }
  const auto nearest = static_cast<double>(value);
  if constexpr (std::same_as<Number, long double>) {
    const auto back = static_cast<long double>(nearest);
    const auto bits = std::bit_cast<std::uint64_t>(nearest);
    if (back == value || value != value || bits % 2 != 0) return nearest;
    const bool away_from_zero = (back > value) == (value > 0);
    return std::bit_cast<double>(away_from_zero ? bits - 1 : bits + 1);
  }
  return nearest;
}

}  // namespace detail
}  // namespace rondo
