#include <array>
#include <limits>

#include <fmt/format.h>

#include <rondo/element_type.hpp>
#include <rondo/error.hpp>

#include "runtime/message_arguments.hpp"

namespace rondo {
namespace {

struct Entry {
  ElementType type;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Entry, 17> kTypes{{
    {ElementType::bytes, "bytes", 1},
    {ElementType::int8, "int8", 1},
    {ElementType::int16, "int16", 2},
    {ElementType::int32, "int32", 4},
    {ElementType::int64, "int64", 8},
    {ElementType::uint8, "uint8", 1},
    {ElementType::uint16, "uint16", 2},
    {ElementType::uint32, "uint32", 4},
    {ElementType::uint64, "uint64", 8},
    {ElementType::float16, "half", 2},
    {ElementType::bfloat16, "bfloat16", 2},
    {ElementType::float32, "float", 4},
    {ElementType::float64, "double", 8},
    {ElementType::complex64, "complex64", 8},
    {ElementType::complex128, "complex128", 16},
    {ElementType::boolean, "bool", 1},
    {ElementType::custom, "custom", 1},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(in_order(), "kTypes is indexed by ElementType");

}  // namespace

std::size_t detail::bytes_of(std::size_t count, std::size_t element_bytes, const char* operation) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (count <= kMost / element_bytes) return count * element_bytes;
  throw Error(Errc::invalid_argument, fmt::format("{}: got {} elements of {} bytes, more than memory can hold{}",
                                                  operation, count, element_bytes, detail::if_negative(count)));
}

std::size_t element_bytes(ElementType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].bytes : 1;
}

std::string_view to_string(ElementType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].name : "unknown";
}

std::optional<ElementType> parse_element_type(std::string_view text) noexcept {
  if (text == "float16") return ElementType::float16;
  if (text == "float32") return ElementType::float32;
  if (text == "float64") return ElementType::float64;
  for (const auto& entry : kTypes) {
    if (entry.name == text) return entry.type;
  }
  return std::nullopt;
}

}  // namespace rondo
