#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <type_traits>

#include <rondo/bfloat16.hpp>
#include <rondo/float16.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;

namespace {

static_assert(std::is_trivially_copyable_v<float16> && std::is_trivially_default_constructible_v<float16>);
static_assert(std::is_trivially_copyable_v<bfloat16> && std::is_trivially_default_constructible_v<bfloat16>);
static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);
static_assert(!std::is_convertible_v<float, float16>, "narrowing is spelled out");
static_assert(float16(1.0F).bits() == 0x3c00 && bfloat16(1.0F).bits() == 0x3f80);
static_assert(float(float16(0.5F)) == 0.5F && float(bfloat16(-2.0F)) == -2.0F);
static_assert(float16(2).bits() == float16(2.0).bits());
static_assert(std::is_same_v<decltype(float16(1) + float16(1)), float16>);
static_assert(std::is_same_v<decltype(float16(1) + 1.0F), float>);

/// Rounds to nearest even by arithmetic alone: `fraction` bits below the leading one, exponents from `lowest`
/// up, infinity from 2^(`highest` + 1) on. Slow and plain: what the bit tricks are measured against.
double rounded(double value, int fraction, int lowest, int highest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), lowest);
  const double unit = std::ldexp(1.0, exponent - fraction);
  const double result = std::nearbyint(value / unit) * unit;  // exact: both are powers of two apart
  return std::fabs(result) >= std::ldexp(1.0, highest + 1) ? std::copysign(INFINITY, value) : result;
}

double rounded_half(double value) { return rounded(value, 10, -14, 15); }
double rounded_bfloat16(double value) { return rounded(value, 7, -126, 127); }

bool same(double a, double b) { return a == b && std::signbit(a) == std::signbit(b); }

/// Catch's macros cost microseconds; loops over many values report the first failure only.
template <typename Small, typename Value, typename Reference>
bool rounds_like(Value value, Reference reference) {
  if (std::isnan(value)) return std::isnan(float(Small(value)));
  const bool ok = same(float(Small(value)), reference(static_cast<double>(value)));
  if (!ok) UNSCOPED_INFO("value " << value << " became " << float(Small(value)));
  return ok;
}

template <typename Small>
void check_round_trip(std::uint32_t quiet_bit) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto value = Small::from_bits(static_cast<std::uint16_t>(bits));
    const auto back = Small(float(value)).bits();
    const std::uint32_t expected = std::isnan(float(value)) ? bits | quiet_bit : bits;
    if (back != expected) FAIL("bits " << bits << " came back as " << back);
  }
}

}  // namespace

TEST_CASE("all 65536 values of float16 survive the way through float", "[runtime][float16]") {
  check_round_trip<float16>(0x0200);
}

TEST_CASE("all 65536 values of bfloat16 survive the way through float", "[runtime][float16]") {
  check_round_trip<bfloat16>(0x0040);
}

TEST_CASE("float16 widens to what its bits mean", "[runtime][float16]") {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const int fraction = static_cast<int>(bits & 0x3ff);
    const double expected = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    const auto positive = float16::from_bits(static_cast<std::uint16_t>(bits));
    if (!same(float(positive), expected) || !same(float(-positive), -expected)) FAIL("bits " << bits);
  }
  CHECK(std::isinf(float(float16::from_bits(0x7c00))));
  CHECK(std::isnan(float(float16::from_bits(0x7c01))));
}

TEST_CASE("float16 rounds to nearest even on and around every tie", "[runtime][float16]") {
  bool ok = true;
  for (std::uint32_t bits = 0; bits < 0x7c00 && ok; ++bits) {
    const float low = float(float16::from_bits(static_cast<std::uint16_t>(bits)));
    const float high = bits == 0x7bff ? 65536.0F : float(float16::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const float tie = (low + high) / 2;
    for (const float value : {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, 1e9F)}) {
      ok = ok && rounds_like<float16>(value, rounded_half) && rounds_like<float16>(-value, rounded_half);
    }
  }
  CHECK(ok);
}

TEST_CASE("bfloat16 rounds to nearest even on and around every tie", "[runtime][float16]") {
  bool ok = true;
  for (std::uint32_t bits = 0; bits < 0x7f80 && ok; ++bits) {
    const auto tie = std::bit_cast<float>((bits << 16) | 0x8000U);
    for (const float value : {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, INFINITY)}) {
      ok = ok && rounds_like<bfloat16>(value, rounded_bfloat16) && rounds_like<bfloat16>(-value, rounded_bfloat16);
    }
  }
  CHECK(ok);
}

TEST_CASE("both small floats round random floats and doubles like the reference", "[runtime][float16]") {
  std::mt19937_64 random(20261);
  bool ok = true;
  for (int i = 0; i < 200000 && ok; ++i) {
    const auto bits = random();
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const auto wide = std::bit_cast<double>(bits);
    const double near =
        std::ldexp(static_cast<double>(bits >> 11) / 9007199254740992.0, static_cast<int>(bits % 48) - 26);
    ok = rounds_like<float16>(single, rounded_half) && rounds_like<bfloat16>(single, rounded_bfloat16) &&
         rounds_like<float16>(wide, rounded_half) && rounds_like<bfloat16>(wide, rounded_bfloat16) &&
         rounds_like<float16>(near, rounded_half) && rounds_like<bfloat16>(near, rounded_bfloat16);
  }
  CHECK(ok);
}

TEST_CASE("a double is rounded once, not by way of float", "[runtime][float16]") {
  // 1 + 2^-11 is a tie of float16; the 2^-40 above it is lost in float, yet decides.
  CHECK(float16(1.0 + 0x1p-11 + 0x1p-40).bits() == 0x3c01);
  CHECK(float16(1.0 + 0x1p-11).bits() == 0x3c00);
  CHECK(bfloat16(1.0 + 0x1p-8 + 0x1p-40).bits() == 0x3f81);
  CHECK(bfloat16(-1.0 - 0x1p-8 - 0x1p-40).bits() == 0xbf81);
}

TEST_CASE("what a double has no room for is rounded once, too", "[runtime][float16]") {
  // 2^62 + 2^54 is a tie of bfloat16; the 1 above or below it is lost in a double, yet decides.
  constexpr std::int64_t kTie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  CHECK(float(bfloat16(kTie)) == 0x1p62F);
  CHECK(float(bfloat16(kTie + 1)) == 0x1p62F + 0x1p55F);
  CHECK(float(bfloat16(-kTie - 1)) == -0x1p62F - 0x1p55F);
  CHECK(float(bfloat16(-kTie + 1)) == -0x1p62F);
  CHECK(float(bfloat16(std::numeric_limits<std::int64_t>::min())) == -0x1p63F);
  constexpr std::uint64_t kHigh = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 55);
  CHECK(float(bfloat16(kHigh)) == 0x1p63F);
  CHECK(float(bfloat16(kHigh + 1)) == 0x1p63F + 0x1p56F);
  CHECK(float(bfloat16(kHigh - 1)) == 0x1p63F);
  if (std::numeric_limits<long double>::digits > 60) {
    CHECK(bfloat16(1.0L + 0x1p-8L + 0x1p-60L).bits() == 0x3f81);
    CHECK(bfloat16(-1.0L - 0x1p-8L - 0x1p-60L).bits() == 0xbf81);
    CHECK(bfloat16(1.0L + 0x1p-8L - 0x1p-60L).bits() == 0x3f80);
    CHECK(float16(1.0L + 0x1p-11L + 0x1p-60L).bits() == 0x3c01);
  }
}

TEST_CASE("the edges of float16 are where IEEE 754 puts them", "[runtime][float16]") {
  CHECK(float16(65504.0F).bits() == 0x7bff);
  CHECK(float16(65519.99F).bits() == 0x7bff);
  CHECK(float16(65520.0F).bits() == 0x7c00);
  CHECK(float16(-1e30F).bits() == 0xfc00);
  CHECK(float16(1e300).bits() == 0x7c00);
  CHECK(float16(0x1p-24F).bits() == 0x0001);
  CHECK(float16(0x1p-25F).bits() == 0x0000);
  CHECK(float16(0x1.000002p-25F).bits() == 0x0001);
  CHECK(float16(-0.0F).bits() == 0x8000);
  CHECK(float16(std::numeric_limits<float>::denorm_min()).bits() == 0);
  CHECK(float(std::numeric_limits<float16>::max()) == 65504.0F);
  CHECK(std::numeric_limits<float16>::is_bounded);
  CHECK(float(std::numeric_limits<float16>::round_error()) == 0.5F);
  CHECK(std::isnan(float(std::numeric_limits<float16>::signaling_NaN())));
  CHECK(float(std::numeric_limits<bfloat16>::round_error()) == 0.5F);
  CHECK(std::isnan(float(std::numeric_limits<bfloat16>::signaling_NaN())));
  // The decimal digits that tell one from any other.
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto value = float16::from_bits(static_cast<std::uint16_t>(bits));
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.*g", std::numeric_limits<float16>::max_digits10, double(float(value)));
    if (float16(std::strtof(text.data(), nullptr)).bits() != value.bits()) FAIL(text.data());
  }
  CHECK(float(std::numeric_limits<float16>::min()) == 0x1p-14F);
  CHECK(float(std::numeric_limits<float16>::epsilon()) == 0x1p-10F);
}

TEST_CASE("the edges of bfloat16 are those of float", "[runtime][float16]") {
  CHECK(bfloat16(std::numeric_limits<float>::max()).bits() == 0x7f80);
  CHECK(bfloat16(1e300).bits() == 0x7f80);
  CHECK(bfloat16(-INFINITY).bits() == 0xff80);
  CHECK(float(std::numeric_limits<bfloat16>::max()) == 0x1.fep127F);
  CHECK(float(std::numeric_limits<bfloat16>::epsilon()) == 0x1p-7F);
  CHECK(std::isnan(float(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST_CASE("small floats compute in float and round once", "[runtime][float16]") {
  float16 sum(2048);
  sum += float16(1);  // 2049 is a tie between 2048 and 2050
  CHECK(float(sum) == 2048.0F);
  sum += float16(3);
  CHECK(float(sum) == 2052.0F);
  CHECK(float(float16(3) * float16(5) - float16(1)) == 14.0F);
  CHECK(float(-bfloat16(3) / bfloat16(2)) == -1.5F);
  CHECK(float16(1) < float16(2));
  CHECK(float16(1) == 1.0F);
  const auto nan = std::numeric_limits<float16>::quiet_NaN();
  CHECK_FALSE(nan == nan);
}
