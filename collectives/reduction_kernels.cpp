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

#include "collectives/reduction_formats.hpp"

namespace rondo::detail {
namespace {

/// Vectors in flight: enough to hide the latency of an operator and of the loop over the inputs.
constexpr std::size_t kUnroll = 4;

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
