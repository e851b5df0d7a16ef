#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <rondo/all_reduce.hpp>
#include <rondo/barrier.hpp>
#include <rondo/communicator.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

// Uses a core, and not the library.
double compute_for(Clock::duration duration) {
  double x = 1;
  for (const auto until = Clock::now() + duration; Clock::now() < until;) {
    for (int i = 0; i < 1000; ++i) x = std::sqrt(x + i);
  }
  return x;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("an all_reduce and a rendezvous send finish while every rank computes", "[runtime][progress]") {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> reduced(1 << 20, 1.0f), sent(1 << 19, 2.0f), received(1 << 19);
    barrier(world);
    Work reduce = iall_reduce(world, std::span(reduced), sum);
    Work send = world.isend(std::span(sent), 1 - world.rank(), Tag{1});
    Work receive = world.irecv(std::span(received), 1 - world.rank(), Tag{1});
    const double waste = compute_for(1500ms);
    // A wait of no time looks whether it is over, and drives nothing.
    require(reduce.wait_for(0ns), "the all_reduce did not finish meanwhile");
    require(send.wait_for(0ns), "the send did not finish meanwhile");
    require(receive.wait_for(0ns), "the receive did not finish meanwhile");
    require(waste > 0 && reduced.back() == 2.0f && received.back() == 2.0f, "wrong data");
  });
}

TEST_CASE("eight ranks that wait use less than 1% of a core", "[runtime][progress]") {
  constexpr auto kWait = 3s;
  double used = 0;
  run_ranks(8, [&](Communicator& world) {
    int value = 0;
    barrier(world);
    // Nobody sends: the receive waits. Falling asleep is not counted, what sleeping costs is.
    Work never = world.irecv(std::span(&value, 1), (world.rank() + 1) % 8, Tag{5});
    require(!never.wait_for(500ms), "nothing was sent");
    const double before = cpu_seconds();
    require(!never.wait_for(kWait), "nothing was sent");
    if (world.rank() == 0) used = cpu_seconds() - before;
    barrier(world);
    world.send(std::span(&value, 1), (world.rank() + 7) % 8, Tag{5});
    never.wait();
  });
  CAPTURE(used);
  CHECK(used < 0.01 * std::chrono::duration<double>(kWait).count());
}
