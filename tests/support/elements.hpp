#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <rondo/op.hpp>

namespace rondo::testing {

/// Any bits for integers and, with more zeros, for 16-bit floats; floats of close exponents, whose sums round, with
/// zeros, infinities, subnormals and NaNs in between.
template <typename T>
T random_element(std::minstd_rand& random) {
  const auto word = (std::uint64_t{random()} << 32) ^ (std::uint64_t{random()} << 11) ^ random();
  if constexpr (std::is_same_v<T, bool>) {
    return word % 2 == 0;
  } else if constexpr (std::is_same_v<T, std::byte> || std::is_integral_v<T>) {
    return static_cast<T>(word);
  } else if constexpr (SmallFloat<T>) {
    const auto sign = static_cast<std::uint16_t>(word & 0x8000U);
    return T::from_bits(word / 2 % 8 == 0 ? sign : static_cast<std::uint16_t>(word));
  } else if constexpr (!std::is_floating_point_v<T>) {
    using Part = typename T::value_type;
    const auto real = random_element<Part>(random);
    return T(real, random_element<Part>(random));
  } else {
    using Limits = std::numeric_limits<T>;
    constexpr T kSpecial[] = {0, Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(), Limits::min(), 1};
    const T sign = word % 2 == 0 ? T(1) : T(-1);
    if (word / 2 % 16 == 0) return sign * kSpecial[word / 32 % std::size(kSpecial)];
    return sign * std::ldexp(static_cast<T>(word >> 20), static_cast<int>(word % 8) - 44);
  }
}

/// What `fold` is to give for one element.
template <typename T, typename Op>
T left_fold(const std::vector<T>& operands, Op op) {
  if (operands.size() == 1) return operands[0];
  using Computed = std::conditional_t<SmallFloat<T>, float, T>;
  auto folded = static_cast<Computed>(operands[0]);
  for (std::size_t k = 1; k < operands.size(); ++k) {
    folded = static_cast<Computed>(op(folded, static_cast<Computed>(operands[k])));
  }
  return static_cast<T>(folded);
}

/// The same bits, or both a NaN: which one it is where several meet is up to the processor.
template <typename T>
bool same(const T& a, const T& b) {
  if constexpr (NumberElement<T> && !OrderedElement<T>) {
    return same(a.real(), b.real()) && same(a.imag(), b.imag());
  } else {
    return std::memcmp(&a, &b, sizeof(T)) == 0 || (a != a && b != b);
  }
}

}  // namespace rondo::testing
