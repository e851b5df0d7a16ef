// How soon ranks are together.

#include <algorithm>
#include <string>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::test;

TEST_CASE("eight ranks have passed their first barrier 50 ms after the last was launched", "[process][start]") {
  // The least of some: what it takes where nobody else needs the cores.
  std::vector<double> milliseconds;
  for (int i = 0; i < 5; ++i) {
    const auto ended = launch({"-n", "8", "--no-prefix", "--", STARTING_RANK});
    REQUIRE(ended.status == 0);
    milliseconds.push_back(std::stod(ended.out));
  }
  CHECK(*std::min_element(milliseconds.begin(), milliseconds.end()) < 50);
}
