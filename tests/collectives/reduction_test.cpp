#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <rondo/reduction.hpp>

#include "tests/support/catch.hpp"

using namespace rondo;

namespace {

std::byte* bytes(auto& elements) { return reinterpret_cast<std::byte*>(elements.data()); }
const std::byte* bytes(const auto& elements) { return reinterpret_cast<const std::byte*>(elements.data()); }

/// Small numbers that no type overflows or rounds away, different at every index.
template <typename T>
std::vector<T> pattern(std::size_t count, int seed) {
  std::vector<T> elements(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = static_cast<int>((i * 7 + static_cast<std::size_t>(seed) * 3) % 5);
    if constexpr (std::is_same_v<T, bool>) {
      elements[i] = number % 2 == 0;
    } else if constexpr (std::is_same_v<T, std::byte>) {
      elements[i] = static_cast<std::byte>(number * 51);
    } else {
      elements[i] = static_cast<T>(static_cast<float>(number));
    }
  }
  return elements;
}

/// std::vector<bool> has no bytes.
template <typename T>
struct Array {
  std::array<T, 80> elements{};
  T* data() { return elements.data(); }
};

template <typename T>
Array<T> array(const std::vector<T>& from) {
  Array<T> result;
  for (std::size_t i = 0; i < std::min(from.size(), result.elements.size()); ++i) result.elements[i] = from[i];
  return result;
}

/// Both sides, in place and not, lengths around the vector width, an unaligned source: all agree with the operator.
template <typename T, typename Op>
void check_combine(Op op) {
  if constexpr (ReduceOp<Op, T>) {
    const auto reduction = Reduction::of<T>(op);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{67}}) {
      for (const Side side : {Side::left, Side::right}) {
        const auto left = pattern<T>(count, 1);
        const auto right = pattern<T>(count, 2);
        auto own = array(left);
        auto apart = array(std::vector<T>(count));
        auto from = array(right);
        std::vector<std::byte> arrived(count * sizeof(T) + 1);
        if (count > 0) std::memcpy(arrived.data() + 1, bytes(from), count * sizeof(T));
        reduction.combine(bytes(own), arrived.data() + 1, bytes(apart), count, side);
        reduction.combine(bytes(own), arrived.data() + 1, bytes(own), count, side);
        bool ok = true;
        for (std::size_t i = 0; i < count; ++i) {
          const T l = left[i];
          const T r = right[i];
          const T expected = side == Side::right ? op(l, r) : op(r, l);
          ok = ok && apart.data()[i] == expected && own.data()[i] == expected;
        }
        INFO(to_string(element_type_of<T>) << " " << to_string(Op::kind) << " x " << count);
        CHECK(ok);
      }
    }
  }
}

template <typename... Elements>
void check_operators() {
  const auto check = [](auto op) { (check_combine<Elements>(op), ...); };
  check(sum);
  check(prod);
  check(min);
  check(max);
  check(avg);
  check(band);
  check(bor);
  check(bxor);
  check(land);
  check(lor);
}

template <typename T>
void check_average(T total, int ranks, T expected) {
  std::vector<T> values(9, total);
  Reduction::of<T>(avg).finish(bytes(values), values.size(), ranks);
  INFO(to_string(element_type_of<T>));
  CHECK(values == std::vector<T>(9, expected));
}

struct Matrix {
  int a, b, c, d;
  friend bool operator==(const Matrix&, const Matrix&) = default;
};
Matrix multiply(Matrix l, Matrix r) {
  return {l.a * r.a + l.b * r.c, l.a * r.b + l.b * r.d, l.c * r.a + l.d * r.c, l.c * r.b + l.d * r.d};
}

}  // namespace

TEST_CASE("every operator combines every element type that it takes", "[collectives][reduction]") {
  check_operators<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t,
                  std::uint64_t, float16, bfloat16, float, double, std::complex<float>, std::complex<double>, bool,
                  std::byte>();
}

TEST_CASE("avg divides once, at the end", "[collectives][reduction]") {
  check_average<std::int8_t>(-7, 2, -3);
  check_average<std::int16_t>(-700, 7, -100);
  check_average<std::int32_t>(10, 4, 2);
  check_average<std::int64_t>(-10, 4, -2);
  check_average<std::uint8_t>(255, 2, 127);
  check_average<std::uint16_t>(65535, 5, 13107);
  check_average<std::uint32_t>(4294967295U, 5, 858993459U);
  check_average<std::uint64_t>(18446744073709551615U, 5, 3689348814741910323U);
  check_average(float16(5), 2, float16(2.5F));
  check_average(bfloat16(5), 2, bfloat16(2.5F));
  check_average(5.0F, 4, 1.25F);
  check_average(5.0, 4, 1.25);
  check_average(std::complex<float>(3, 5), 2, std::complex<float>(1.5F, 2.5F));
  check_average(std::complex<double>(3, 5), 2, std::complex<double>(1.5, 2.5));
}

TEST_CASE("operators other than avg leave the result alone at the end", "[collectives][reduction]") {
  std::vector<float> values{1, 2, 3};
  Reduction::of<float>(sum).finish(bytes(values), values.size(), 4);
  CHECK(values == std::vector<float>{1, 2, 3});
}

TEST_CASE("float16 is computed in float and rounded at each combination", "[collectives][reduction]") {
  std::vector<float16> into{float16(2048), float16(0.1F)};
  const std::vector<float16> from{float16(3), float16(0.2F)};
  Reduction::of<float16>(sum).combine(bytes(into), bytes(from), bytes(into), 2, Side::right);
  CHECK(float(into[0]) == 2052.0F);
  CHECK(into[1] == float16(float(float16(0.1F)) + float(float16(0.2F))));
}

TEST_CASE("the left zero wins min and max on either side", "[collectives][reduction]") {
  for (const Side side : {Side::left, Side::right}) {
    const float minus = side == Side::left ? 0.0F : -0.0F;  // what lies in `into`
    std::vector<float> into(5, minus);
    const std::vector<float> from(5, -minus);
    Reduction::of<float>(min).combine(bytes(into), bytes(from), bytes(into), 5, side);
    CHECK(std::signbit(into[4]));
  }
}

TEST_CASE("an operator that does not commute keeps its operands' order", "[collectives][reduction]") {
  const Matrix low{1, 2, 3, 4};
  const Matrix high{0, 1, 1, 5};
  const auto reduction = Reduction::of<Matrix>(multiply);
  CHECK_FALSE(reduction.commutative());
  CHECK(reduction.element_bytes() == sizeof(Matrix));

  std::vector<Matrix> into{low};
  const std::vector<Matrix> from{high};
  reduction.combine(bytes(into), bytes(from), bytes(into), 1, Side::right);
  CHECK(into[0] == multiply(low, high));

  into = {high};
  const std::vector<Matrix> lower{low};
  reduction.combine(bytes(into), bytes(lower), bytes(into), 1, Side::left);
  CHECK(into[0] == multiply(low, high));
}

TEST_CASE("an over-aligned element needs no aligned memory", "[collectives][reduction]") {
  struct alignas(64) Wide {
    double value[8];
  };
  const auto reduction = Reduction::of<Wide>([](const Wide& a, const Wide& b) {
    Wide result = a;
    for (int i = 0; i < 8; ++i) result.value[i] += b.value[i];
    return result;
  });
  std::vector<std::byte> memory(3 * sizeof(Wide) + 1);
  std::byte* const own = memory.data() + 1;
  Wide element{};
  for (int i = 0; i < 8; ++i) element.value[i] = i;
  std::memcpy(own, &element, sizeof(Wide));
  std::memcpy(own + sizeof(Wide), &element, sizeof(Wide));
  reduction.combine(own, own + sizeof(Wide), own + 2 * sizeof(Wide), 1, Side::left);
  std::memcpy(&element, own + 2 * sizeof(Wide), sizeof(Wide));
  CHECK(element.value[7] == 14.0);
}

TEST_CASE("a reduction owns the state of its callable", "[collectives][reduction]") {
  const auto factor = std::make_shared<int>(3);
  {
    const auto reduction = Reduction::of<int>([factor](int a, int b) { return a + *factor * b; });
    CHECK(factor.use_count() == 2);
    std::vector<int> into{1};
    const std::vector<int> from{2};
    reduction.combine(bytes(into), bytes(from), bytes(into), 1, Side::right);
    CHECK(into[0] == 7);
  }
  CHECK(factor.use_count() == 1);
}

TEST_CASE("a custom operator is told apart by the type of its callable", "[collectives][reduction]") {
  const auto add = [](int a, int b) { return a + b; };
  const auto subtract = [](int a, int b) { return a - b; };
  CHECK(Reduction::of<int>(add).kind() == ReduceKind::custom);
  CHECK(Reduction::of<int>(add).operator_hash() == Reduction::of<int>(add).operator_hash());
  CHECK(Reduction::of<int>(add).operator_hash() != Reduction::of<int>(subtract).operator_hash());
  CHECK(Reduction::of<int>(sum).operator_hash() == 0);
  CHECK(Reduction::of<int>(sum).kind() == ReduceKind::sum);
  CHECK(Reduction().kind() == ReduceKind::none);
}
