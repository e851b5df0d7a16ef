#include <sys/eventfd.h>

#include <array>
#include <chrono>
#include <memory>

#include "runtime/poll_waiter.hpp"
#include "tests/runtime/held_peer.hpp"
#include "tests/support/catch.hpp"

// What a rank asks the system for before a sleep, and after it.

using namespace rondo::detail;
using rondo::testing::HeldLink;
using rondo::testing::Pair;

namespace {

struct Rings {
  void ring() const { REQUIRE(::eventfd_write(event.get(), 1) == 0); }
  Descriptor event{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

using Checks = std::array<int, 2>;

/// Rank 0 of three, and its links to both others, which share memory with it.
struct Sleeper : Pair {
  Sleeper() {
    auto second = std::make_unique<HeldLink>();
    links = {link, second.get()};
    engine.peer(2).attach(std::move(second));
    for (std::size_t i = 0; i < links.size(); ++i) {
      links[i]->shares_memory = true;
      links[i]->file = bells[i].event.get();
      links[i]->on_poll = [this] { ++polls; };
    }
  }
  void sleep() {
    REQUIRE(engine.prepare_to_sleep(wakes) > Duration::zero());
    in_kernel.wait(wakes, std::chrono::seconds(10));
    engine.awake();
  }
  Checks checks() const { return {links[0]->checks, links[1]->checks}; }

  std::array<Rings, 2> bells;
  std::array<HeldLink*, 2> links{};
  int polls = 0;
  WakeList wakes;
  PollWaiter in_kernel;
};

}  // namespace

TEST_CASE("before a sleep a rank looks at memory, and leaves the system to the sleep", "[runtime][sleeping]") {
  Sleeper rank;
  rank.bells[0].ring();
  rank.sleep();
  CHECK(rank.polls == 2);
  CHECK(rank.checks() == Checks{0, 0});
  SECTION("unless something is there") {
    rank.links[1]->moves = 1;
    CHECK(rank.engine.prepare_to_sleep(rank.wakes) == Duration::zero());
    // Nor is it known then what the system has.
    rank.engine.poll(Engine::Look::everything, &rank.wakes);
    CHECK(rank.checks() == Checks{1, 1});
  }
}

TEST_CASE("after a sleep the system is asked for no more than what ended it", "[runtime][sleeping]") {
  Sleeper rank;
  Checks asked{};
  SECTION("the first") {
    rank.bells[0].ring();
    asked = {1, 0};
  }
  SECTION("the last") {
    rank.bells[1].ring();
    asked = {0, 1};
  }
  SECTION("neither") { rank.in_kernel.wake(); }
  rank.sleep();
  rank.engine.poll(Engine::Look::everything, &rank.wakes);
  CHECK(rank.checks() == asked);
  rank.engine.poll(Engine::Look::everything);
  rank.engine.poll(Engine::Look::everything, &rank.wakes);  // all have been asked for
  CHECK(rank.checks() == Checks{asked[0] + 2, asked[1] + 2});
}

TEST_CASE("of what nobody waited for it is not known that it is quiet", "[runtime][sleeping]") {
  const std::array<Rings, 3> files;
  WakeList wakes;
  const auto quiet = [&](int index) { return wakes.quiet(files.at(static_cast<std::size_t>(index)).event.get()); };
  wakes.add(files[0].event.get(), false);
  wakes.add(files[2].event.get(), false);
  CHECK_FALSE(quiet(0));
  PollWaiter waiter;
  waiter.wait(wakes, Duration::zero());
  CHECK(quiet(0));
  CHECK_FALSE(quiet(1));
  CHECK(quiet(2));
  CHECK_FALSE(quiet(2));
  wakes.clear();
  CHECK_FALSE(quiet(0));
}
