#include "bench/pattern.hpp"

#include <complex>
#include <limits>
#include <vector>

#include "bench/element_dispatch.hpp"
#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::bench;

namespace {

constexpr std::array kKinds{ReduceKind::sum,  ReduceKind::prod, ReduceKind::min,  ReduceKind::max,  ReduceKind::avg,
                            ReduceKind::band, ReduceKind::bor,  ReduceKind::bxor, ReduceKind::land, ReduceKind::lor};
constexpr std::array kTypes{ElementType::int8,      ElementType::int16,     ElementType::int32,   ElementType::int64,
                            ElementType::uint8,     ElementType::uint16,    ElementType::uint32,  ElementType::uint64,
                            ElementType::float16,   ElementType::bfloat16,  ElementType::float32, ElementType::float64,
                            ElementType::complex64, ElementType::complex128};

/// What `ranks` ranks get when they combine their patterns one after the other with rondo's own operator.
template <typename T, typename Op>
std::vector<T> combined_by_rondo(Op op, int ranks, std::size_t count) {
  std::vector<T> result(count);
  fill(std::span(result), values_of_rank<T>(Op::kind, 0, ranks));
  for (int rank = 1; rank < ranks; ++rank) {
    std::vector<T> other(count);
    fill(std::span(other), values_of_rank<T>(Op::kind, rank, ranks));
    for (std::size_t i = 0; i < count; ++i) result[i] = op(result[i], other[i]);
  }
  if (Op::kind == ReduceKind::avg) {
    for (T& value : result) value = static_cast<T>(value / static_cast<T>(static_cast<float>(ranks)));
  }
  return result;
}

}  // namespace

TEST_CASE("the expected result of every operator on every type is what the operator gives", "[bench]") {
  for (const auto type : kTypes) {
    for (const auto kind : kKinds) {
      if (!applies(kind, type)) continue;
      for (const int ranks : {1, 2, 3, 4, 7, 16}) {
        INFO(to_string(kind) << " of " << to_string(type) << " on " << ranks << " ranks");
        const std::size_t wrong = with_type(type, [&]<typename T>(std::type_identity<T>) {
          return with_op(kind, [&]<typename Op>(Op op) -> std::size_t {
            if constexpr (ReduceOp<Op, T>) {
              const auto result = combined_by_rondo<T>(op, ranks, 500);
              return count_wrong(std::span<const T>(result), combined_values<T>(kind, ranks),
                                 tolerance<T>(kind, ranks));
            } else {
              return 1;
            }
          });
        });
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("one wrong element is counted, wherever it is", "[bench]") {
  for (const auto type : kTypes) {
    with_type(type, [&]<typename T>(std::type_identity<T>) {
      const auto expected = combined_values<T>(ReduceKind::sum, 4);
      for (const std::size_t place : {0, 112, 113, 998, 999}) {
        std::vector<T> data(1000);
        fill(std::span(data), expected);
        data[place] = data[place] + T(1);
        CHECK(count_wrong(std::span<const T>(data), expected, tolerance<T>(ReduceKind::sum, 4)) == 1);
      }
    });
  }
}

TEST_CASE("an output that nobody wrote is wrong in every element", "[bench]") {
  std::vector<float> data(1000);
  clear(std::span(data));
  CHECK(count_wrong(std::span<const float>(data), combined_values<float>(ReduceKind::sum, 4)) == 1000);
}

TEST_CASE("data that lands a block away from its place is wrong", "[bench]") {
  const auto values = values_of_rank<std::int32_t>(ReduceKind::none, 1, 4);
  for (const std::size_t shift : {1, 2, 64, 1024, 65536}) {
    std::vector<std::int32_t> data(500);
    fill(std::span(data), values, shift);
    CHECK(count_wrong(std::span<const std::int32_t>(data), values) == 500);
    CHECK(count_wrong(std::span<const std::int32_t>(data), values, 0, shift) == 0);
  }
  std::vector<std::int32_t> other(500);
  fill(std::span(other), values_of_rank<std::int32_t>(ReduceKind::none, 2, 4));
  CHECK(count_wrong(std::span<const std::int32_t>(other), values) == 500);
}

TEST_CASE("only results that cannot be exact have a tolerance, and NaN is in none", "[bench]") {
  CHECK(tolerance<float>(ReduceKind::sum, 1000) == 0);
  CHECK(tolerance<std::int32_t>(ReduceKind::avg, 3) == 0);
  CHECK(tolerance<bfloat16>(ReduceKind::sum, 85) == 0);
  CHECK(tolerance<bfloat16>(ReduceKind::sum, 200) > 0);
  CHECK(tolerance<double>(ReduceKind::avg, 4) == Catch::Approx(4 * std::numeric_limits<double>::epsilon()));
  CHECK_FALSE(is_close(std::numeric_limits<float>::quiet_NaN(), 1.0F, 1e9));
}
