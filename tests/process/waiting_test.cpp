// What waiting costs.

#include <deque>
#include <string>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::test;

TEST_CASE("eight ranks that wait for a minute use less than 1% of a core together", "[process][waiting]") {
  std::deque<Launched> jobs;
  for (const std::string transport : {"auto", "unix", "tcp"}) {
    jobs.emplace_back(
        std::vector<std::string>{"-n", "8", "--no-prefix", "-x", "RONDO_TRANSPORT=" + transport, "--", WAITING_RANK});
  }
  for (Launched& job : jobs) {
    const double first = std::stod(job.wait_for_output("\n"));
    const auto ended = job.wait();
    INFO(ended.out << ended.err);
    REQUIRE(ended.status == 0);
    CHECK(first < 0.01);
    CHECK(std::stod(ended.out.substr(ended.out.find('\n'))) < 0.01);
  }
}
