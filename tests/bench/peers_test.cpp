#include <string>

#include "bench/compare/child.hpp"
#include "tests/support/catch.hpp"

// RONDO_BENCH is the path of the benchmark; the loops on other libraries are found from there.

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A comparison of barriers of 2 ranks, each library as it comes.
Outcome compare_barriers(const std::string& limit) {
  constexpr double kLongEnough = 60;
  return run_program({{RONDO_BENCH, "compare", "--paths", "default", "--operations", "barrier", "--ranks", "2",
                       "--rounds", "1", "--seconds", "0.001", "--fail-above", limit},
                      {}},
                     kLongEnough);
}

bool contains(const Outcome& outcome, const std::string& text) {
  return outcome.output.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("every operation's loop gives right results on every library that was built", "[bench][process]") {
  constexpr double kLongEnough = 120;
  const Outcome outcome = run_program(
      {{RONDO_BENCH, "compare", "--ranks", "2", "--sizes", "8,100K", "--rounds", "1", "--seconds", "0.001"}, {}},
      kLongEnough);
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, !ContainsSubstring("failed") && !ContainsSubstring("wrong elements"));
}

TEST_CASE("a comparison fails where rondo's time is more than so many times another's", "[bench][process]") {
  const Outcome above = compare_barriers("1e-9");
  INFO(above.output);
  if (contains(above, "default: no cell was measured on both")) {
    WARN("skipped: no other library was found at build time");
    return;
  }
  CHECK(above.status == 1);
  CHECK_THAT(above.output, ContainsSubstring("\n# above 1e-09: barrier, 2 ranks, default: "));
  const Outcome below = compare_barriers("1e9");
  INFO(below.output);
  CHECK(below.status == 0);
  CHECK_THAT(below.output, ContainsSubstring("\n# no cell is above 1e+09\n"));
}

TEST_CASE("on the default path every library takes its own", "[bench][process]") {
  const Outcome outcome = compare_barriers("1e9");
  INFO(outcome.output);
  CHECK_THAT(outcome.output,
             ContainsSubstring("\n# rondo on default: rondo ") && ContainsSubstring(", transport shm\n"));
  if (!contains(outcome, "# gloo is left out")) {
    CHECK_THAT(outcome.output, ContainsSubstring("\n# gloo on default: Gloo, transport tcp\n"));
  }
}
