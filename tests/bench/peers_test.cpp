#include "bench/compare/child.hpp"
#include "tests/support/catch.hpp"

// RONDO_BENCH is the path of the benchmark; the loops on other libraries are found from there.

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("every operation's loop gives right results on every library that was built", "[bench][process]") {
  constexpr double kLongEnough = 120;
  const Outcome outcome = run_program(
      {{RONDO_BENCH, "compare", "--ranks", "2", "--sizes", "8,100K", "--rounds", "1", "--seconds", "0.001"}, {}},
      kLongEnough);
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, !ContainsSubstring("failed") && !ContainsSubstring("wrong elements"));
}
