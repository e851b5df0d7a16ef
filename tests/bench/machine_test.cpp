#include "bench/tune/machine.hpp"

#include <sched.h>
#include <sys/wait.h>

#include <cerrno>
#include <cmath>

#include "bench/tune/model_loops.hpp"
#include "bench/two_cores.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::bench;
using rondo::simulation::kMicrosecond;

namespace {

double microseconds(rondo::simulation::Time time) { return static_cast<double>(time) / kMicrosecond; }

}  // namespace

TEST_CASE("a machine's constants are measured, and nothing is left behind", "[bench][tune]") {
  cpu_set_t before, after;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const Machine machine;
  REQUIRE(::sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);

  for (const std::uint64_t all : {std::uint64_t{0}, std::uint64_t{1} << 20, std::uint64_t{1} << 40}) {
    const Constants constants = machine.constants(all, 2);
    CHECK((first_two_cores().has_value()) == (constants.arena.meeting > 0));
    CHECK(constants.arena.turn > 0);
    CHECK(constants.arena.access > 0);
    CHECK(constants.arena.staged <= constants.arena.access);
    CHECK(constants.arena.access < constants.arena.pull);
    CHECK(constants.vain > 0);
    // A message of TCP's is two calls of the system, and a look in vain is half of one at the most.
    CHECK(microseconds(2 * constants.tcp.overhead) > 2 * constants.vain);
    CHECK(constants.tcp.latency >= 0);
    CHECK(std::isfinite(constants.tcp.gap_per_byte));
    CHECK(constants.tcp.gap_per_byte > 0);
  }
}

TEST_CASE("loops take as much as the model says at least, where it says it", "[bench][tune]") {
  const Machine machine;
  const Constants small = machine.constants(8, 8);
  const auto at_least = [&](Operation operation, std::size_t bytes, int ranks, Path path) {
    return least_microseconds({operation, bytes}, ranks, {path, 1, 2}, machine);
  };
  CHECK(at_least(Operation::latency, 8, 2, Path::tcp) ==
        Catch::Approx(microseconds(small.tcp.latency + 2 * small.tcp.overhead)).epsilon(0.01));
  CHECK(at_least(Operation::barrier, 0, 2, Path::shm) == Catch::Approx(small.arena.meeting));
  // All to the root and back, each after a turn, on two cores.
  CHECK(at_least(Operation::all_reduce, 8, 8, Path::tcp) ==
        Catch::Approx(14 * (microseconds(2 * small.tcp.overhead) + small.arena.turn + small.vain) / 2).epsilon(0.01));
  for (const Path path : {Path::shm, Path::tcp}) {
    CHECK(at_least(Operation::latency, 16 << 20, 2, path) > at_least(Operation::latency, 1 << 20, 2, path));
    CHECK(at_least(Operation::all_reduce, 16 << 20, 8, path) > at_least(Operation::all_reduce, 16 << 20, 2, path));
  }
  CHECK(has_model({Operation::latency, 8}));
  CHECK(has_model({Operation::all_to_all, 8}));
  CHECK_FALSE(has_model({Operation::broadcast, 8}));
  CHECK_FALSE(has_model({Operation::bandwidth, 8}));
}
