#include "runtime/trial.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "tests/support/catch.hpp"

using rondo::detail::Trial;
using std::chrono::hours;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t kBytes = 1000;

/// Its calls take so long for kBytes either way, but the first, which is a hundred times as long.
void try_out(Trial& trial, nanoseconds first, nanoseconds second) {
  for (const int way : {0, 1}) {
    for (int i = 0; i < Trial::kEach; ++i) {
      CHECK_FALSE(trial.due());
      CHECK(trial.way() == way);
      trial.took((way == 0 ? first : second) * (i == 0 ? 100 : i), static_cast<std::size_t>(std::max(i, 1)) * kBytes);
    }
  }
  CHECK(trial.due());
}

}  // namespace

TEST_CASE("both ways are tried out, then all calls go the faster one until both are tried anew", "[runtime][trial]") {
  const int faster = GENERATE(0, 1);
  Trial trial;
  for (int round = 0; round < 2; ++round) {
    try_out(trial, nanoseconds(faster == 0 ? 70 : 80), nanoseconds(faster == 0 ? 80 : 70));
    CHECK(trial.found() == (faster == 0 ? Trial::Times{70, 80} : Trial::Times{80, 70}));
    trial.settle(trial.found());
    for (int i = 0; i < Trial::kKept; ++i) {
      REQUIRE_FALSE(trial.due());
      REQUIRE(trial.way() == faster);
      trial.took(nanoseconds(faster == 0 ? 1000 : 1), kBytes);
    }
  }
}

TEST_CASE("what others found counts, too, and times that are too long for the word are its longest",
          "[runtime][trial]") {
  Trial trial;
  try_out(trial, nanoseconds(10), hours(1));
  CHECK(trial.found() == Trial::Times{10, 0xffffffff});
  trial.settle({30, 20});
  CHECK(trial.way() == 1);
}
