#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <rondo/op.hpp>

#include "tests/support/catch.hpp"

namespace {

using namespace rondo;

struct Point {
  float x, y;
  friend Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
};
enum class Colour : int { red };

struct Longest {
  static constexpr bool commutative = true;
  int operator()(int a, int b) const { return a > b ? a : b; }
};
struct Composition {
  int operator()(int a, int b) const { return a * 10 + b; }
};

// What an operator takes and what does not compile.
static_assert(ReduceOp<Sum, float> && ReduceOp<Sum, std::int8_t> && ReduceOp<Sum, std::complex<double>>);
static_assert(ReduceOp<Max, float16> && ReduceOp<Avg, bfloat16> && ReduceOp<Prod, unsigned long long>);
static_assert(ReduceOp<Band, std::byte> && ReduceOp<Bxor, bool> && ReduceOp<Land, bool> && ReduceOp<Lor, char>);
static_assert(!ReduceOp<Band, float>, "bits of a float mean nothing");
static_assert(!ReduceOp<Bor, double> && !ReduceOp<Bxor, float16> && !ReduceOp<Land, float>);
static_assert(!ReduceOp<Min, std::complex<float>>, "complex numbers have no order");
static_assert(!ReduceOp<Sum, bool> && !ReduceOp<Avg, std::byte> && !ReduceOp<Max, bool>);
static_assert(!ReduceOp<Sum, Point> && !ReduceOp<Sum, Colour>, "a type of one's own comes with a callable");
static_assert(!ReduceOp<Sum, std::string>);

// Callables.
static_assert(ReduceOp<Longest, int> && ReduceOp<int (*)(int, int), int>);
static_assert(!ReduceOp<int (*)(int), int> && !ReduceOp<int, int>);
static_assert(!ReduceOp<Longest, Point>);
static_assert(commutative<Sum> && commutative<Longest>);
static_assert(!commutative<Composition> && !commutative<int (*)(int, int)>);
static_assert(commutative<decltype(commuting(Composition{}))>);
static_assert(ReduceOp<decltype(commuting([](Point a, Point b) { return a + b; })), Point>);

// Operators are functions too.
static_assert(sum(2, 3) == 5 && prod(2.5, 2.0) == 5.0 && min(2, 3) == 2 && max(2, 3) == 3);
static_assert(band(6U, 3U) == 2U && bor(6U, 3U) == 7U && bxor(6U, 3U) == 5U);
static_assert(land(2, 1) == 1 && land(2, 0) == 0 && lor(0, 0) == 0 && lor(0, 9) == 1);
static_assert(band(std::byte{6}, std::byte{3}) == std::byte{2});
static_assert(bxor(true, true) == false && lor(false, true) == true);

// Overflow wraps around, also where C++ would promote to int or leave it undefined.
static_assert(sum(std::int8_t{127}, std::int8_t{1}) == std::numeric_limits<std::int8_t>::min());
static_assert(sum(std::numeric_limits<int>::max(), 1) == std::numeric_limits<int>::min());
static_assert(prod(std::uint16_t{65535}, std::uint16_t{65535}) == 1);
static_assert(prod(std::numeric_limits<std::int64_t>::max(), std::int64_t{2}) == -2);

}  // namespace

TEST_CASE("min and max give NaN when either side is one", "[collectives][op]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(rondo::min(nan, 1.0F)));
  CHECK(std::isnan(rondo::min(1.0F, nan)));
  CHECK(std::isnan(rondo::max(nan, 1.0F)));
  CHECK(std::isnan(rondo::max(1.0F, nan)));
  CHECK(rondo::max(-1.0F, 2.0F) == 2.0F);
}

TEST_CASE("complex numbers multiply as in the textbook", "[collectives][op]") {
  CHECK(rondo::prod(std::complex<float>(1, 2), std::complex<float>(3, 4)) == std::complex<float>(-5, 10));
  CHECK(rondo::sum(std::complex<double>(1, 2), std::complex<double>(3, 4)) == std::complex<double>(4, 6));
}

TEST_CASE("commuting passes calls through and keeps state", "[collectives][op]") {
  int calls = 0;
  auto op = rondo::commuting([&calls](int a, int b) {
    ++calls;
    return a + b;
  });
  CHECK(op(2, 3) == 5);
  CHECK(calls == 1);
}
