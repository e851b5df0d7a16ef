#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include <rondo/bfloat16.hpp>
#include <rondo/call.hpp>
#include <rondo/float16.hpp>

namespace rondo::bench {

// What buffers hold while results are checked. Element `i` of rank `r` depends on `r` and on `i mod 113`: a prime, so
// that data which lands a power of two away from its place is seen, and small enough for int8 and, exactly, bfloat16.
// So every rank can say what each element of a result has to be, from the formula alone:
//
//   moved data, min, max, band, bor, bxor   (i + 31 r) mod 113
//   sum, avg                                (i + 31 r) mod 113 mod 4
//   prod                                    1 + i mod 113 on rank (i mod 113) mod P, 1 on the others
//   land, lor                               0 (land) or 1 (lor) on rank (i mod 113) mod (P + 1), the opposite on the
//   others

inline constexpr std::size_t kPeriod = 113;

/// A whole number that rank `rank` of `ranks` contributes to elements whose index is `phase` modulo `kPeriod`.
double contribution(ReduceKind kind, int rank, int ranks, std::size_t phase);
/// The contributions of all ranks, combined; for avg their sum.
double combined(ReduceKind kind, int ranks, std::size_t phase);

template <typename T>
struct IsComplex : std::false_type {};
template <typename T>
struct IsComplex<std::complex<T>> : std::true_type {};
template <typename T>
concept Complex = IsComplex<T>::value;

/// `value` as an element. Integers wrap and truncate; complex numbers get an imaginary part too, but for products,
/// which would mix it with the real one.
template <typename T>
T encode(double value, ReduceKind kind) {
  if constexpr (Complex<T>) {
    using Component = typename T::value_type;
    return {static_cast<Component>(value), kind == ReduceKind::prod ? Component{0} : static_cast<Component>(-value)};
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value));
  } else {
    return T(value);
  }
}

/// One period of elements.
template <typename T>
using Period = std::array<T, kPeriod>;

template <typename T>
Period<T> values_of_rank(ReduceKind kind, int rank, int ranks) {
  Period<T> values;
  for (std::size_t phase = 0; phase < kPeriod; ++phase)
    values[phase] = encode<T>(contribution(kind, rank, ranks, phase), kind);
  return values;
}

template <typename T>
Period<T> combined_values(ReduceKind kind, int ranks) {
  Period<T> values;
  for (std::size_t phase = 0; phase < kPeriod; ++phase) {
    const double result = combined(kind, ranks, phase);
    if constexpr (std::integral<T>) {
      const auto wrapped = encode<T>(result, kind);
      values[phase] = kind == ReduceKind::avg ? static_cast<T>(static_cast<double>(wrapped) / ranks) : wrapped;
    } else {
      values[phase] = encode<T>(kind == ReduceKind::avg ? result / ranks : result, kind);
    }
  }
  return values;
}

/// Relative to the expected value. Sums and products of these whole numbers are exact in every type that can hold
/// them, whatever the order; only averages, and sums too large for the type's digits, round: once per rank at most.
template <typename T>
double tolerance(ReduceKind kind, int ranks) {
  if constexpr (std::integral<T>) {
    return 0;
  } else if constexpr (Complex<T>) {
    return tolerance<typename T::value_type>(kind, ranks);
  } else {
    const double largest_exact = std::ldexp(1.0, std::numeric_limits<T>::digits);
    const bool rounds = kind == ReduceKind::avg || (kind == ReduceKind::sum && 3.0 * ranks > largest_exact);
    const auto epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
    return rounds ? std::max(ranks, 2) * epsilon : 0;
  }
}

/// Calls `with(part of data, part of period)` over all of `data`, whose first element has index `first`.
template <typename T, typename F>
void for_each_period(std::span<T> data, std::size_t first, F&& with) {
  std::size_t phase = first % kPeriod;
  while (!data.empty()) {
    const std::size_t length = std::min(kPeriod - phase, data.size());
    with(data.first(length), phase);
    data = data.subspan(length);
    phase = 0;
  }
}

template <typename T>
void fill(std::span<T> data, const Period<T>& values, std::size_t first = 0) {
  for_each_period(data, first, [&](std::span<T> part, std::size_t phase) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(phase), part.size(), part.begin());
  });
}

/// Bytes that no pattern has, so that an element which an operation did not write is a wrong one.
template <typename T>
void clear(std::span<T> data) {
  if (!data.empty()) std::memset(static_cast<void*>(data.data()), 0xff, data.size_bytes());
}

/// NaN is never within any tolerance.
template <typename T>
bool is_close(T got, T want, double relative) {
  if constexpr (std::integral<T>) {
    return got == want;
  } else if constexpr (Complex<T>) {
    return is_close(got.real(), want.real(), relative) && is_close(got.imag(), want.imag(), relative);
  } else {
    const auto expected = static_cast<double>(want);
    return std::abs(static_cast<double>(got) - expected) <= relative * std::abs(expected);
  }
}

template <typename T>
std::size_t count_wrong(std::span<const T> data, const Period<T>& values, double relative = 0, std::size_t first = 0) {
  std::size_t wrong = 0;
  for_each_period(data, first, [&](std::span<const T> part, std::size_t phase) {
    const T* const want = values.data() + phase;
    if (std::memcmp(part.data(), want, part.size_bytes()) == 0) return;
    for (std::size_t i = 0; i < part.size(); ++i) wrong += is_close(part[i], want[i], relative) ? 0U : 1U;
  });
  return wrong;
}

}  // namespace rondo::bench
