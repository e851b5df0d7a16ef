#include "bench/statistics.hpp"

#include "tests/support/catch.hpp"

using namespace rondo::bench;

TEST_CASE("a percentile is the smallest sample that enough samples do not exceed", "[bench]") {
  const std::vector<double> ten{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  CHECK(percentile(ten, 0.50) == 5);
  CHECK(percentile(ten, 0.51) == 6);
  CHECK(percentile(ten, 0.99) == 10);
  CHECK(percentile(ten, 0.0) == 1);
  CHECK(percentile(ten, 1.0) == 10);
  CHECK(percentile({7}, 0.5) == 7);
}

TEST_CASE("of 1000 samples, ten exceed p99", "[bench]") {
  std::vector<double> samples;
  for (int i = 1000; i >= 1; --i) samples.push_back(i);
  const Times times = summarise(samples);
  CHECK(times.min == 1);
  CHECK(times.p50 == 500);
  CHECK(times.p99 == 990);
  CHECK(times.max == 1000);
  CHECK(times.mean == Catch::Approx(500.5));
}
