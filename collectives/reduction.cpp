#include <array>

#include <rondo/reduction.hpp>

namespace rondo {
namespace {

/// Where exchanged operands can give other bits: of two zeros, min and max keep the left one. (So can the two products
/// of a complex part, of which a fused multiply-add rounds one.) All else may ignore the side.
template <typename Op, typename T>
constexpr bool depends_on_side = (Op::kind == ReduceKind::min || Op::kind == ReduceKind::max) && !std::is_integral_v<T>;

/// An operator on 16-bit floats as the one conversion, one operation, one rounding that compilers vectorise.
template <SmallFloat T, typename Op>
struct InFloat {
  T operator()(const T& a, const T& b) const { return T(Op{}(static_cast<float>(a), static_cast<float>(b))); }
};

/// A complex number as two plain ones, whose loops compilers vectorise where those of std::complex fall back to memory.
template <typename Part>
struct Parts {
  Part real;
  Part imag;
};

struct PartsProduct {
  template <typename Part>
  Parts<Part> operator()(const Parts<Part>& a, const Parts<Part>& b) const {
    return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
  }
};

template <typename T, typename Op>
void combine(void*, const std::byte* own, const std::byte* other, std::byte* into, std::size_t count, Side side) {
  const Op op;
  if constexpr (NumberElement<T> && !OrderedElement<T>) {
    using Part = typename T::value_type;
    if constexpr (Op::kind == ReduceKind::prod) {
      const PartsProduct product;
      detail::combine<Parts<Part>>(product, own, other, into, count, side);
    } else {
      detail::combine_on_side<Part, Side::right>(op, own, other, into, 2 * count);
    }
  } else if constexpr (depends_on_side<Op, T>) {
    detail::combine<T>(op, own, other, into, count, side);
  } else if constexpr (SmallFloat<T>) {
    const InFloat<T, Op> in_float;
    detail::combine_on_side<T, Side::right>(in_float, own, other, into, count);
  } else {
    detail::combine_on_side<T, Side::right>(op, own, other, into, count);
  }
}

template <typename T, typename Op>
constexpr Reduction::Combine combine_or_null() {
  if constexpr (ReduceOp<Op, T>) return &combine<T, Op>;
  return nullptr;
}

constexpr std::size_t kKinds = static_cast<std::size_t>(ReduceKind::custom);
using Row = std::array<Reduction::Combine, kKinds>;

/// One element type's loops, indexed by ReduceKind.
template <typename T>
constexpr Row row() {
  return {nullptr,
          combine_or_null<T, Sum>(),
          combine_or_null<T, Prod>(),
          combine_or_null<T, Min>(),
          combine_or_null<T, Max>(),
          combine_or_null<T, Avg>(),
          combine_or_null<T, Band>(),
          combine_or_null<T, Bor>(),
          combine_or_null<T, Bxor>(),
          combine_or_null<T, Land>(),
          combine_or_null<T, Lor>()};
}

/// Indexed by ElementType, as far as `boolean`.
constexpr std::array kRows{
    row<std::byte>(),
    row<std::int8_t>(),
    row<std::int16_t>(),
    row<std::int32_t>(),
    row<std::int64_t>(),
    row<std::uint8_t>(),
    row<std::uint16_t>(),
    row<std::uint32_t>(),
    row<std::uint64_t>(),
    row<float16>(),
    row<bfloat16>(),
    row<float>(),
    row<double>(),
    row<std::complex<float>>(),
    row<std::complex<double>>(),
    row<bool>(),
};
static_assert(kRows.size() == static_cast<std::size_t>(ElementType::custom));

template <typename T>
void divide(std::byte* data, std::size_t count, int ranks) {
  T* const elements = reinterpret_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_unsigned_v<T>) {
      elements[i] = static_cast<T>(elements[i] / static_cast<unsigned>(ranks));
    } else if constexpr (std::is_integral_v<T>) {
      elements[i] = static_cast<T>(elements[i] / ranks);
    } else if constexpr (SmallFloat<T>) {
      elements[i] = T(static_cast<float>(elements[i]) / static_cast<float>(ranks));
    } else if constexpr (std::is_floating_point_v<T>) {
      elements[i] /= static_cast<T>(ranks);
    } else {
      elements[i] /= static_cast<typename T::value_type>(ranks);
    }
  }
}

}  // namespace

Reduction::Combine Reduction::predefined(ElementType type, ReduceKind kind) noexcept {
  return kRows.at(static_cast<std::size_t>(type)).at(static_cast<std::size_t>(kind));
}

void Reduction::finish(std::byte* data, std::size_t count, int ranks) const {
  if (kind_ != ReduceKind::avg) return;
  switch (type_) {
    case ElementType::int8: return divide<std::int8_t>(data, count, ranks);
    case ElementType::int16: return divide<std::int16_t>(data, count, ranks);
    case ElementType::int32: return divide<std::int32_t>(data, count, ranks);
    case ElementType::int64: return divide<std::int64_t>(data, count, ranks);
    case ElementType::uint8: return divide<std::uint8_t>(data, count, ranks);
    case ElementType::uint16: return divide<std::uint16_t>(data, count, ranks);
    case ElementType::uint32: return divide<std::uint32_t>(data, count, ranks);
    case ElementType::uint64: return divide<std::uint64_t>(data, count, ranks);
    case ElementType::float16: return divide<float16>(data, count, ranks);
    case ElementType::bfloat16: return divide<bfloat16>(data, count, ranks);
    case ElementType::float32: return divide<float>(data, count, ranks);
    case ElementType::float64: return divide<double>(data, count, ranks);
    case ElementType::complex64: return divide<std::complex<float>>(data, count, ranks);
    case ElementType::complex128: return divide<std::complex<double>>(data, count, ranks);
    case ElementType::bytes:
    case ElementType::boolean:
    case ElementType::custom: break;
  }
}

}  // namespace rondo
