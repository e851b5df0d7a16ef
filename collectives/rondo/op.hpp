#pragma once

#include <algorithm>
#include <complex>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <rondo/bfloat16.hpp>
#include <rondo/call.hpp>
#include <rondo/element_type.hpp>
#include <rondo/float16.hpp>

namespace rondo {

/// int8 to int64 and uint8 to uint64, by whatever name; neither bool nor an enumeration.
template <typename T>
concept IntegerElement = std::integral<T> && !std::same_as<T, bool> && element_type_of<T> != ElementType::custom;

/// Integers, float, double, float16, bfloat16: what `min` and `max` order.
template <typename T>
concept OrderedElement = IntegerElement<T> || std::same_as<T, float> || std::same_as<T, double> || SmallFloat<T>;

/// Ordered elements and the two complex types: what `sum`, `prod` and `avg` take.
template <typename T>
concept NumberElement =
    OrderedElement<T> || std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;

/// Integers and bool: what `land` and `lor` take.
template <typename T>
concept LogicalElement = IntegerElement<T> || std::same_as<T, bool>;

/// Integers, bool and std::byte: what `band`, `bor` and `bxor` take.
template <typename T>
concept BitwiseElement = LogicalElement<T> || std::same_as<T, std::byte>;

namespace detail {

/// Integers wrap around, signed ones too: computed in an unsigned type at least as wide as unsigned int, so
/// that neither signed overflow nor promotion to int makes it undefined.
template <IntegerElement T>
using Wrapping = std::common_type_t<unsigned, std::make_unsigned_t<T>>;

template <typename T>
constexpr T add(T a, T b) {
  if constexpr (IntegerElement<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  } else {
    return a + b;
  }
}

/// The textbook product of complex numbers: without the rescue of infinities that the operator's runtime call
/// makes.
template <typename T>
constexpr T multiply(T a, T b) {
  if constexpr (IntegerElement<T>) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  } else if constexpr (OrderedElement<T>) {
    return a * b;
  } else {
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
}

}  // namespace detail

/// The predefined operators. Each is a function object of two elements, so it may be called as well as
/// passed.
///
/// - `sum`, `prod`: integers wrap around; float16 and bfloat16 are computed in float and rounded once for all operands
///   that are combined in one pass.
/// - `min`, `max`: a NaN anywhere gives NaN.
/// - `avg`: `sum`, then one division by the number of ranks; integers truncate towards zero. The sum may overflow
///   where the average would not.
/// - `band`, `bor`, `bxor`: bit by bit. `land`, `lor`: zero is false, all else is true; the result is 0 or 1.
///   What a rank alone gives stays as it is.
struct Sum {
  static constexpr ReduceKind kind = ReduceKind::sum;
  static constexpr bool commutative = true;
  template <NumberElement T>
  constexpr T operator()(T a, T b) const {
    return detail::add(a, b);
  }
};

struct Prod {
  static constexpr ReduceKind kind = ReduceKind::prod;
  static constexpr bool commutative = true;
  template <NumberElement T>
  constexpr T operator()(T a, T b) const {
    return detail::multiply(a, b);
  }
};

struct Min {
  static constexpr ReduceKind kind = ReduceKind::min;
  static constexpr bool commutative = true;
  template <OrderedElement T>
  constexpr T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};

struct Max {
  static constexpr ReduceKind kind = ReduceKind::max;
  static constexpr bool commutative = true;
  template <OrderedElement T>
  constexpr T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

struct Avg {
  static constexpr ReduceKind kind = ReduceKind::avg;
  static constexpr bool commutative = true;
  template <NumberElement T>
  constexpr T operator()(T a, T b) const {
    return detail::add(a, b);
  }
};

struct Band {
  static constexpr ReduceKind kind = ReduceKind::band;
  static constexpr bool commutative = true;
  template <BitwiseElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};

struct Bor {
  static constexpr ReduceKind kind = ReduceKind::bor;
  static constexpr bool commutative = true;
  template <BitwiseElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};

struct Bxor {
  static constexpr ReduceKind kind = ReduceKind::bxor;
  static constexpr bool commutative = true;
  template <BitwiseElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

struct Land {
  static constexpr ReduceKind kind = ReduceKind::land;
  static constexpr bool commutative = true;
  template <LogicalElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a != T(0) && b != T(0));
  }
};

struct Lor {
  static constexpr ReduceKind kind = ReduceKind::lor;
  static constexpr bool commutative = true;
  template <LogicalElement T>
  constexpr T operator()(T a, T b) const {
    return static_cast<T>(a != T(0) || b != T(0));
  }
};

inline constexpr Sum sum{};
inline constexpr Prod prod{};
inline constexpr Min min{};
inline constexpr Max max{};
inline constexpr Avg avg{};
inline constexpr Band band{};
inline constexpr Bor bor{};
inline constexpr Bxor bxor{};
inline constexpr Land land{};
inline constexpr Lor lor{};

/// Whether an operator gives the same result with its operands exchanged. Of a callable that does not say, no
/// is assumed: operands then stay in rank order, and fewer algorithms qualify. A callable says yes by a
/// member `static constexpr bool commutative = true;`, by a specialisation of this trait, or by
/// `commuting(callable)`.
template <typename Op>
inline constexpr bool commutative = requires {
  requires static_cast<bool>(Op::commutative);
};

/// A callable that its author declares commutative; see `commuting`.
template <typename Op>
struct Commuting {
  static constexpr bool commutative = true;
  Op op;

  template <typename T>
  requires std::invocable<Op&, const T&, const T&>
  constexpr decltype(auto) operator()(const T& a, const T& b) { return op(a, b); }
};

/// `all_reduce(world, x, commuting([](Point a, Point b) { return a + b; }))`.
template <typename Op>
constexpr Commuting<std::decay_t<Op>> commuting(Op&& op) {
  return {std::forward<Op>(op)};
}

namespace detail {

template <typename Op, typename... Known>
concept OneOf = (std::same_as<Op, Known> || ...);

/// Not what somebody derives from one: that is a callable of its own.
template <typename Op>
concept PredefinedOp = OneOf<Op, Sum, Prod, Min, Max, Avg, Band, Bor, Bxor, Land, Lor>;

template <typename Op, ReduceKind... Kinds>
consteval bool is_one_of() {
  if constexpr (PredefinedOp<Op>) return ((Op::kind == Kinds) || ...);
  return false;
}

}  // namespace detail

// What a compiler names when an operator does not fit its elements. For a type of one's own: pass a callable.

template <typename Op, typename T>
concept SumProdAvgNeedNumbers =
    NumberElement<T> || !detail::is_one_of<Op, ReduceKind::sum, ReduceKind::prod, ReduceKind::avg>();

template <typename Op, typename T>
concept MinMaxNeedOrderedNumbers = OrderedElement<T> || !detail::is_one_of<Op, ReduceKind::min, ReduceKind::max>();

template <typename Op, typename T>
concept BitwiseOperatorsNeedIntegersOrBytes =
    BitwiseElement<T> || !detail::is_one_of<Op, ReduceKind::band, ReduceKind::bor, ReduceKind::bxor>();

template <typename Op, typename T>
concept LogicalOperatorsNeedIntegersOrBool =
    LogicalElement<T> || !detail::is_one_of<Op, ReduceKind::land, ReduceKind::lor>();

template <typename Op, typename T>
concept CallableTakesTwoElementsAndGivesOne = requires(Op& op, const T& a, const T& b) {
  { op(a, b) } -> std::convertible_to<T>;
};

/// What a reduction of elements `T` takes: a predefined operator that fits `T`, or any copyable callable
/// `T(T, T)`, for elements of up to 1 MiB. It must be associative, and may have state, the same on all ranks; it is
/// called by one thread at a time.
template <typename Op, typename T>
concept ReduceOp = Element<T> && std::copy_constructible<Op> && SumProdAvgNeedNumbers<Op, T> &&
    MinMaxNeedOrderedNumbers<Op, T> && BitwiseOperatorsNeedIntegersOrBytes<Op, T> &&
    LogicalOperatorsNeedIntegersOrBool<Op, T> && CallableTakesTwoElementsAndGivesOne<Op, T>;

}  // namespace rondo
