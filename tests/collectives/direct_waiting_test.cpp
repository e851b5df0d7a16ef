// How ranks wait for each other in collectives in shared memory.

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <span>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/on_core.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

struct Tomorrow : detail::Clock {
  detail::Time now() const override { return detail::SteadyClock().now() + std::chrono::hours(24); }
};

}  // namespace

TEST_CASE("ranks that share memory from now on forget how long others took to start", "[collectives][direct]") {
  run_ranks(2, [](Communicator& world) {
    detail::IdleHabits& habits = CommunicatorAccess::group(world, "").engine().progress().habits();
    const Tomorrow clock;  // what the barrier itself teaches is long forgotten then
    detail::Time now{};
    // After the last one a short sleep of the barrier's says nothing.
    for (int time = 0; time < 9; ++time) {
      now = habits.yield(clock, clock.now() - std::chrono::hours(1));
      while (time < 4 && habits.yields_are_long(now)) habits.slept({}, clock.now());
    }
    require(habits.yields_are_long(now), "not noticed");
    barrier(world, {.algorithm = Algorithm::direct});
    require(!habits.yields_are_long(now), "still remembered");
  });
}

TEST_CASE("who waits for a root says on which core, too", "[collectives][direct]") {
  const OnCore first(0);
  run_ranks(4, [](Communicator& world) {
    std::uint32_t word = 0;
    for (int i = 0; i < 1000; ++i) broadcast(world, std::span(&word, 1), 0, {.algorithm = Algorithm::direct});
    const detail::Arena* const arena = CommunicatorAccess::group(world, "").commons().arena();
    require(arena != nullptr, "there is no arena");
    require(world.rank() == 0 || arena->core_of(world.rank()) == ::sched_getcpu(), "it said nothing");
  });
}

TEST_CASE("who waits in shared memory for a rank that has left before hears of it at once", "[collectives][direct]") {
  Config config;
  config.timeout = std::chrono::seconds(10);
  const auto outcomes = try_ranks(
      2,
      [](Communicator& world) {
        barrier(world);
        if (world.rank() == 1) return;
        int nothing = 0;
        try {
          world.recv(std::span(&nothing, 1), 1);
        } catch (const Error& error) {
          if (error.code() != Errc::peer_failed) throw;
        }
        barrier(world);
      },
      config);
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("rank 1 has left"));
}
