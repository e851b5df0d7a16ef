#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <rondo/bfloat16.hpp>
#include <rondo/element_type.hpp>
#include <rondo/float16.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;

namespace {

struct Point {
  float x, y, z;
};
enum class Colour : std::uint8_t { red };

constexpr bool is_char_signed = std::is_signed_v<char>;

static_assert(element_type_of<std::byte> == ElementType::bytes);
static_assert(element_type_of<char> == (is_char_signed ? ElementType::int8 : ElementType::uint8));
static_assert(element_type_of<signed char> == ElementType::int8);
static_assert(element_type_of<unsigned char> == ElementType::uint8);
static_assert(element_type_of<short> == ElementType::int16);
static_assert(element_type_of<std::uint32_t> == ElementType::uint32);
static_assert(element_type_of<long long> == ElementType::int64);
static_assert(element_type_of<long> == element_type_of<std::conditional_t<sizeof(long) == 8, long long, int>>);
static_assert(element_type_of<std::size_t> == ElementType::uint64 || sizeof(std::size_t) != 8);
static_assert(element_type_of<float16> == ElementType::float16);
static_assert(element_type_of<bfloat16> == ElementType::bfloat16);
static_assert(element_type_of<float> == ElementType::float32);
static_assert(element_type_of<double> == ElementType::float64);
static_assert(element_type_of<std::complex<float>> == ElementType::complex64);
static_assert(element_type_of<std::complex<double>> == ElementType::complex128);
static_assert(element_type_of<bool> == ElementType::boolean);
static_assert(element_type_of<Point> == ElementType::custom);
static_assert(element_type_of<Colour> == ElementType::custom);
static_assert(element_type_of<long double> == ElementType::custom);

// What cannot be sent as bytes is not an element.
static_assert(!Element<std::string>);
static_assert(!Element<const int>);
static_assert(!Element<int*>);
static_assert(!Element<int[2]>);
static_assert(!Element<int&>);
static_assert(!Element<void>);

}  // namespace

TEST_CASE("every element type has a size and a name that is read back", "[runtime][element_type]") {
  for (int i = 0; i <= static_cast<int>(ElementType::custom); ++i) {
    const auto type = static_cast<ElementType>(i);
    INFO(to_string(type));
    CHECK(element_bytes(type) > 0);
    CHECK(parse_element_type(to_string(type)) == type);
  }
  CHECK(element_bytes(element_type_of<std::complex<double>>) == sizeof(std::complex<double>));
  CHECK(element_bytes(element_type_of<float16>) == sizeof(float16));
}

TEST_CASE("element types carry the names of nccl-tests", "[runtime][element_type]") {
  CHECK(to_string(ElementType::float16) == "half");
  CHECK(to_string(ElementType::float32) == "float");
  CHECK(to_string(ElementType::float64) == "double");
  CHECK(to_string(ElementType::uint8) == "uint8");
  CHECK(parse_element_type("float16") == ElementType::float16);
  CHECK(parse_element_type("float64") == ElementType::float64);
}

TEST_CASE("an unknown element type is no element type", "[runtime][element_type]") {
  CHECK_FALSE(parse_element_type("").has_value());
  CHECK_FALSE(parse_element_type("Float").has_value());
  CHECK_FALSE(parse_element_type("float8").has_value());
  CHECK(to_string(static_cast<ElementType>(200)) == "unknown");
  CHECK(element_bytes(static_cast<ElementType>(200)) == 1);
}
