#include "bench/tune/machine.hpp"

#include <sched.h>
#include <sys/wait.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bench/tune/model_loops.hpp"
#include "bench/two_cores.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::bench;
using rondo::simulation::kMicrosecond;

namespace {

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
constexpr std::uint64_t kVast = std::uint64_t{1} << 40;

/// Figures that are easy to add up.
Machine::Figures figures() {
  Machine::Figures figures;
  figures.line = 1;
  figures.turn = 10;
  figures.message = 6;
  figures.vain = 1;
  figures.one_way = 7;
  figures.rates = {{{256 * KiB, 0.01, 0.1, 0.2},
                    {4 * MiB, 0.02, 0.1, 0.2},
                    {16 * MiB, 0.04, 0.1, 0.3},
                    {128 * MiB, 0.08, 0.3, 0.4}}};
  return figures;
}

double microseconds(rondo::simulation::Time time) { return static_cast<double>(time) / kMicrosecond; }

double at_least(Operation operation, std::size_t bytes, int ranks, Path path, const Machine& machine) {
  return least_microseconds({operation, bytes}, ranks, {path, 1, 2}, machine);
}

Catch::Approx about(double value) { return Catch::Approx(value).epsilon(0.001); }

}  // namespace

TEST_CASE("a machine's constants are measured, and nothing is left behind", "[bench][tune]") {
  cpu_set_t before, after;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const Machine machine;
  const pid_t left = ::waitpid(-1, nullptr, WNOHANG);
  const int error = errno;
  CHECK(left == -1);
  CHECK(error == ECHILD);
  REQUIRE(::sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));

  for (const std::uint64_t bytes : {std::uint64_t{0}, MiB, kVast}) {
    const Constants constants = machine.constants(bytes, 2);
    CHECK((first_two_cores().has_value()) == (constants.arena.meeting > 0));
    CHECK(constants.arena.turn > 0);
    CHECK(constants.arena.access > 0);
    CHECK(constants.arena.staged > 0);
    CHECK(constants.arena.pull > 0);
    CHECK(constants.vain > 0);
    CHECK(constants.tcp.overhead > 0);
    CHECK(constants.tcp.latency >= 0);
    CHECK(constants.tcp.gap_per_byte > 0);
    CHECK(std::isfinite(constants.tcp.gap_per_byte));
  }
}

TEST_CASE("the constants are those of as many bytes as there are", "[bench][tune]") {
  const Machine machine(figures());
  const Constants small = machine.constants(8, 8);
  CHECK(small.arena.call == 0);
  CHECK(small.arena.meeting == 1);
  CHECK(small.arena.turn == 10);
  CHECK(small.arena.access == 0.01);
  CHECK(small.arena.pull == 0.1);
  CHECK(small.vain == 1);
  CHECK(microseconds(small.tcp.overhead) == about(3));
  CHECK(microseconds(small.tcp.latency) == about(1));
  CHECK(small.tcp.gap_per_byte == about(200));
  const Constants large = machine.constants(8 * MiB, 2);
  CHECK(large.arena.access == 0.04);
  CHECK(large.arena.staged == 0.02);  // of which there is less
  CHECK(machine.constants(kVast, 2).arena.access == 0.08);
}

TEST_CASE("loops take as much as the model says at least, where it says it", "[bench][tune]") {
  const Machine machine(figures());
  CHECK(at_least(Operation::latency, 8, 2, Path::tcp, machine) == about(7));
  CHECK(at_least(Operation::barrier, 0, 2, Path::shm, machine) == about(1));
  // All to the root and back, each after a turn, on two cores.
  CHECK(at_least(Operation::all_reduce, 8, 8, Path::tcp, machine) == about(14 * (6 + 1 + 10) / 2.0));
  // A copy by both sides at the same time, who meet before and after, or two copies through the ring.
  const double mebibyte = 1e-3 * static_cast<double>(MiB);
  CHECK(at_least(Operation::latency, MiB, 2, Path::shm, machine) == about(1 + 2 * 0.02 * mebibyte));
  CHECK(at_least(Operation::latency, 8 * MiB, 2, Path::shm, machine) == about(2 + 8 * 0.05 * mebibyte));
  Machine::Figures forbidden = figures();
  for (auto& rates : forbidden.rates) rates.pull = std::numeric_limits<double>::infinity();
  CHECK(at_least(Operation::latency, 8 * MiB, 2, Path::shm, Machine(forbidden)) == about(1 + 8 * 2 * 0.04 * mebibyte));
  for (const Operation operation : {Operation::all_gather, Operation::all_to_all}) {
    CHECK(std::isfinite(at_least(operation, 16 * MiB, 2, Path::shm, Machine(forbidden))));
  }
  for (const Path path : {Path::shm, Path::tcp}) {
    CHECK(at_least(Operation::all_reduce, 16 * MiB, 8, path, machine) >
          at_least(Operation::all_reduce, 16 * MiB, 2, path, machine));
  }
}

TEST_CASE("the model has nothing to say of loops in which ranks run ahead", "[bench][tune]") {
  CHECK(has_model({Operation::latency, 8}));
  CHECK(has_model({Operation::all_to_all, 8}));
  CHECK_FALSE(has_model({Operation::broadcast, 8}));
  CHECK_FALSE(has_model({Operation::bandwidth, 8}));
}
