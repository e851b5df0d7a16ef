#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <rondo/export.hpp>

namespace rondo {

class float16;
class bfloat16;

/// What an element is, as far as other ranks and the predefined operators need to know.
enum class ElementType : std::uint8_t {
  bytes,  ///< std::byte: moved, and combined by the bitwise operators only
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,   ///< std::complex<float>
  complex128,  ///< std::complex<double>
  boolean,
  custom,  ///< any other trivially copyable type: collectives compare the sizes of two, messages take them for one type
};

/// What rondo moves: any trivially copyable type but pointers, which mean nothing in another process.
template <typename T>
concept Element =
    std::is_object_v<T> && !std::is_const_v<T> && !std::is_volatile_v<T> && std::is_trivially_copyable_v<T> &&
    !std::is_pointer_v<T> && !std::is_member_pointer_v<T> && !std::is_array_v<T>;

namespace detail {

/// So many elements in bytes. Throws Error{invalid_argument}, naming the operation, for more than memory can hold.
RONDO_EXPORT std::size_t bytes_of(std::size_t count, std::size_t element_bytes, const char* operation);

/// By width and sign, so that `long`, `long long` and `std::int64_t` are one type on the wire.
template <std::integral T>
consteval ElementType integer_type() {
  constexpr bool is_signed = std::is_signed_v<T>;
  switch (sizeof(T)) {
    case 1: return is_signed ? ElementType::int8 : ElementType::uint8;
    case 2: return is_signed ? ElementType::int16 : ElementType::uint16;
    case 4: return is_signed ? ElementType::int32 : ElementType::uint32;
    case 8: return is_signed ? ElementType::int64 : ElementType::uint64;
    default: return ElementType::custom;
  }
}

template <typename T>
consteval ElementType element_type() {
  if constexpr (std::same_as<T, std::byte>)
    return ElementType::bytes;
  else if constexpr (std::same_as<T, bool>)
    return ElementType::boolean;
  else if constexpr (std::integral<T>)
    return integer_type<T>();
  else if constexpr (std::same_as<T, float16>)
    return ElementType::float16;
  else if constexpr (std::same_as<T, bfloat16>)
    return ElementType::bfloat16;
  else if constexpr (std::same_as<T, float>)
    return ElementType::float32;
  else if constexpr (std::same_as<T, double>)
    return ElementType::float64;
  else if constexpr (std::same_as<T, std::complex<float>>)
    return ElementType::complex64;
  else if constexpr (std::same_as<T, std::complex<double>>)
    return ElementType::complex128;
  else
    return ElementType::custom;
}

}  // namespace detail

/// The element type of `T`: `element_type_of<long>` is `ElementType::int64` where long has 64 bits.
template <Element T>
inline constexpr ElementType element_type_of = detail::element_type<T>();

/// Size of one element; 1 for `custom`, whose size only the caller knows.
RONDO_EXPORT std::size_t element_bytes(ElementType type) noexcept;

/// The names of nccl-tests: "int8", "half", "float", "double", "bfloat16", ...
RONDO_EXPORT std::string_view to_string(ElementType type) noexcept;

/// Reads what `to_string` writes, and numpy's "float16", "float32", "float64".
RONDO_EXPORT std::optional<ElementType> parse_element_type(std::string_view text) noexcept;

}  // namespace rondo
