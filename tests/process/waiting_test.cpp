// What waiting costs.

#include <string>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::test;

TEST_CASE("eight ranks that wait use less than 1% of a core together", "[process][waiting]") {
  const std::string transport = GENERATE("auto", "unix", "tcp");
  CAPTURE(transport);
  const auto ended = launch({"-n", "8", "--no-prefix", "-x", "RONDO_TRANSPORT=" + transport, "--", WAITING_RANK});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK(std::stod(ended.out) < 0.01);
}
