// How soon ranks are together.

#include <algorithm>
#include <limits>
#include <string>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::test;

TEST_CASE("eight ranks have passed their first barrier 50 ms after the last was launched", "[process][start]") {
  // The least of some: what it takes where nobody else needs the cores.
  constexpr double kMilliseconds = 50;
  constexpr int kRuns = 20;
  double least = std::numeric_limits<double>::max();
  for (int run = 0; run < kRuns && least >= kMilliseconds; ++run) {
    const auto ended = launch({"-n", "8", "--no-prefix", "--", STARTING_RANK});
    REQUIRE(ended.status == 0);
    least = std::min(least, std::stod(ended.out));
  }
  CHECK(least < kMilliseconds);
}
