#include "runtime/trial.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tests/support/catch.hpp"

using rondo::detail::Trial;
using std::chrono::hours;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t kBytes = 1000;

constexpr std::uint32_t kCounted = Trial::kInRow - 1;

/// Its calls take so long for kBytes either way, but for the first of each row, which is a hundred times as long.
void try_out(Trial& trial, nanoseconds first, nanoseconds second) {
  for (const int way : {0, 1}) {
    for (int i = 0; i < Trial::kInRow; ++i) {
      REQUIRE_FALSE(trial.due());
      REQUIRE(trial.way() == way);
      trial.took((way == 0 ? first : second) * (i == 0 ? 100 : i), static_cast<std::size_t>(std::max(i, 1)) * kBytes);
    }
  }
  REQUIRE(trial.due());
}

void check_kept(Trial& trial, int way) {
  for (int i = 0; i < Trial::kKept; ++i) {
    REQUIRE_FALSE(trial.due());
    REQUIRE(trial.way() == way);
    trial.took(nanoseconds(way == 0 ? 1000 : 1), kBytes);
  }
}

}  // namespace

TEST_CASE("both ways are tried out, then all calls go the faster one until both are tried anew", "[runtime][trial]") {
  const int faster = GENERATE(0, 1);
  const nanoseconds first(faster == 0 ? 70 : 75), second(faster == 0 ? 75 : 70);
  Trial trial;
  for (int round = 0; round < 2; ++round) {
    // Of the rows the shortest counts.
    for (int row = 0; row < Trial::kRows; ++row) {
      try_out(trial, row == 1 ? first : 2 * first, row == 1 ? second : 2 * second);
      trial.settle(trial.found());
    }
    CHECK(trial.found() ==
          (faster == 0 ? Trial::Times{kCounted * 70, kCounted * 75} : Trial::Times{kCounted * 75, kCounted * 70}));
    check_kept(trial, faster);
  }
}

TEST_CASE("a way that takes clearly less needs no second row, and one that takes somewhat less no third",
          "[runtime][trial]") {
  const int faster = GENERATE(0, 1);
  const int rows = GENERATE(1, 2);
  const nanoseconds more(rows == 1 ? 90 : 80);
  Trial trial;
  for (int row = 0; row < rows; ++row) {
    try_out(trial, faster == 0 ? nanoseconds(70) : more, faster == 0 ? more : nanoseconds(70));
    trial.settle(trial.found());
  }
  check_kept(trial, faster);
}

TEST_CASE("what others found counts, too, and times that are too long for the word are its longest",
          "[runtime][trial]") {
  Trial trial;
  try_out(trial, nanoseconds(10), hours(1));
  CHECK(trial.found() == Trial::Times{kCounted * 10, 0xffffffff});
  trial.settle({30, 20});
  CHECK(trial.way() == 1);
}
