#include "runtime/idle.hpp"

#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;

namespace {

/// Each look at it is so much later than the one before.
class SteppingClock final : public Clock {
 public:
  Time now() const override { return now_ += step; }
  void pass(Duration time) { now_ += time; }
  Duration step{};

 private:
  mutable Time now_{Time(1h)};
};

constexpr Polled kSystem{.system = 1};
constexpr Duration kLongYield = IdlePolicy{}.long_yield;

Time yield_for(SteppingClock& clock, IdleHabits& habits, Duration duration) {
  clock.step = 0ns;
  const Time before = clock.now();
  clock.step = duration;
  return habits.yield(clock, before);
}

}  // namespace

TEST_CASE("who yields to others that wait comes home, unless others compute", "[runtime][idle]") {
  static int moves;
  moves = 0;
  SteppingClock clock;
  IdleHabits habits(IdlePolicy{}, HomeCore([] { return 0; }, [](int) { return ++moves > 0; }));
  habits.expect(0, 1);
  yield_for(clock, habits, IdleHabits::kVainYield);  // nobody else was there
  CHECK(moves == 0);
  SECTION("at once") {
    yield_for(clock, habits, kLongYield);
    CHECK(moves == 1);
  }
  SECTION("where that is of no matter to whom it waits for") {
    habits.expect(0);
    yield_for(clock, habits, 2us);
    CHECK(moves == 0);
  }
  SECTION("after a while") {
    yield_for(clock, habits, kLongYield + 1us);
    CHECK(moves == 0);
    yield_for(clock, habits, kLongYield);
    CHECK(moves == 0);
    SECTION("that passes") {
      yield_for(clock, habits, kLongYield);
      CHECK(moves == 1);
    }
    SECTION("or as many bytes were moved, and now are few") {
      habits.expect(std::size_t{1} << 20, 1);
      yield_for(clock, habits, kLongYield + 1us);
      habits.expect(0, 1);
      yield_for(clock, habits, 2us);
      CHECK(moves == 1);
    }
    SECTION("or that is forgotten") {
      habits.forget_long_yields();
      yield_for(clock, habits, 2us);
      CHECK(moves == 1);
    }
    SECTION("or that was the others' work for this rank") {
      yield_for(clock, habits, kLongYield + 1us);
      habits.brought(IdleHabits::kWorthwhile);
      yield_for(clock, habits, 2us);
      CHECK(moves == 1);
    }
  }
}

TEST_CASE("after a long yield none is tried for a while, for longer each time", "[runtime][idle]") {
  SteppingClock clock;
  IdleHabits habits(IdlePolicy{});
  CHECK_FALSE(habits.yields_are_long(yield_for(clock, habits, 1us)));

  Time now = yield_for(clock, habits, 3ms);
  CHECK(habits.yields_are_long(now));
  CHECK_FALSE(habits.yields_are_long(now + IdleHabits::kLeastAvoided));

  now = yield_for(clock, habits, 3ms);
  CHECK(habits.yields_are_long(now + IdleHabits::kLeastAvoided));
  CHECK_FALSE(habits.yields_are_long(now + 2 * IdleHabits::kLeastAvoided));

  SECTION("but not for ever") {
    for (int i = 0; i < 30; ++i) now = yield_for(clock, habits, 3ms);
    CHECK_FALSE(habits.yields_are_long(now + IdleHabits::kMostAvoided));
  }
  SECTION("for less again as short ones come") {
    for (int i = 0; i < 200; ++i) yield_for(clock, habits, 1us);
    now = yield_for(clock, habits, 3ms);
    CHECK_FALSE(habits.yields_are_long(now + IdleHabits::kLeastAvoided));
  }
  SECTION("unless so much came before the next that others worked for this rank") {
    habits.brought(3 * IdleHabits::kWorthwhile - 1);
    CHECK(habits.yields_are_long(now));
    habits.brought(1);
    CHECK_FALSE(habits.yields_are_long(now));
    SECTION("and not after a short one") {
      now = yield_for(clock, habits, 3ms);
      yield_for(clock, habits, 1us);
    }
    SECTION("and not after another long one") {
      yield_for(clock, habits, 3ms);
      habits.brought(1);
      now = yield_for(clock, habits, 3ms);
      habits.brought(1);
    }
    SECTION("and not when more bytes are moved") {
      habits.expect(std::size_t{1} << 20);
      now = yield_for(clock, habits, 3ms);
      habits.expect(1000);
      habits.expect(std::size_t{1} << 20);
    }
    habits.brought(3 * IdleHabits::kWorthwhile - 1);
    CHECK(habits.yields_are_long(now));
  }
  SECTION("unless waits in which it sleeps instead are short, one after the other") {
    constexpr auto kFewest = IdleHabits::kFewestShortSleeps;
    constexpr auto kMore = IdleHabits::kTimesAsMany * kFewest;
    const auto sleep_briefly = [&](int times) {
      for (int i = 0; i < times; ++i) habits.slept(100us, now);
    };
    sleep_briefly(kFewest - 1);
    habits.slept(3ms, now);
    sleep_briefly(kFewest - 1);
    CHECK(habits.yields_are_long(now));
    SECTION("and no long yield comes in between") {
      now = yield_for(clock, habits, 3ms);
      sleep_briefly(kFewest - 1);
      CHECK(habits.yields_are_long(now));
    }
    SECTION("and no other is long") {
      sleep_briefly(1);
      CHECK_FALSE(habits.yields_are_long(now));
      SECTION("soon after that, or more of them are needed") {
        now = yield_for(clock, habits, 3ms);
        sleep_briefly(kMore - 1);
        CHECK(habits.yields_are_long(now));
        SECTION("until no yield is long any more") {
          clock.pass(IdleHabits::kSoon);
          yield_for(clock, habits, 2us);
          now = yield_for(clock, habits, 3ms);
          sleep_briefly(kFewest);
        }
        SECTION("and are enough then") { sleep_briefly(1); }
        CHECK_FALSE(habits.yields_are_long(now));
      }
      SECTION("but may be later, also after one in which the others worked for this rank") {
        if (GENERATE(false, true)) {
          yield_for(clock, habits, 3ms);
          habits.brought(3 * IdleHabits::kWorthwhile);
        }
        clock.pass(IdleHabits::kSoon);
        now = yield_for(clock, habits, 3ms);
        sleep_briefly(kFewest);
        CHECK_FALSE(habits.yields_are_long(now));
      }
    }
  }
  SECTION("apart for times when few bytes are moved, and when many") {
    habits.expect(std::size_t{1} << 20);
    CHECK_FALSE(habits.yields_are_long(now));
    now = yield_for(clock, habits, 3ms);
    CHECK(habits.yields_are_long(now));
    habits.expect(1000);
    CHECK_FALSE(habits.yields_are_long(now));
    habits.expect(std::size_t{1} << 20);
    CHECK(habits.yields_are_long(now));
  }
  SECTION("and as at first once that is forgotten") {
    habits.forget_long_yields();
    habits.brought(3 * IdleHabits::kWorthwhile);  // which says nothing of what is forgotten
    CHECK_FALSE(habits.yields_are_long(now));
    now = yield_for(clock, habits, 3ms);
    CHECK_FALSE(habits.yields_are_long(now + IdleHabits::kLeastAvoided));
  }
}

TEST_CASE("a yield to many ranks on the same core may take longer", "[runtime][idle]") {
  SteppingClock clock;
  CHECK(IdlePolicy::for_ranks(10, 2).long_yield == kLongYield);
  CHECK(IdlePolicy::for_ranks(31, 31).long_yield == kLongYield);
  const IdlePolicy crowded = IdlePolicy::for_ranks(31, 2);  // 16 on one of the cores
  constexpr Duration kTurns = 16 * IdlePolicy::kTurn;
  IdleHabits habits(crowded);
  CHECK_FALSE(habits.yields_are_long(yield_for(clock, habits, kTurns)));
  const Time now = yield_for(clock, habits, kTurns + 1us);
  CHECK(habits.yields_are_long(now));
  SECTION("as may a sleep") {
    for (int i = 0; i < IdleHabits::kFewestShortSleeps; ++i) habits.slept(kTurns, now);
  }
  SECTION("and has brought enough all the sooner") { habits.brought(IdleHabits::kWorthwhile); }
  CHECK_FALSE(habits.yields_are_long(now));
}

TEST_CASE("who slept for a short time, as yields were long, soon yields again", "[runtime][idle]") {
  SteppingClock clock;
  const IdlePolicy crowded = IdlePolicy::for_ranks(2, 1);
  IdleHabits habits(crowded);
  const auto wait = [&](int wakes) {
    clock.step = 10us;
    Idle idle(crowded, clock, habits);
    const Idle::Step step = idle.next(kSystem);
    // Woken by others than the one that it waits for.
    for (int i = 0; i < wakes; ++i) {
      idle.moved();
      idle.next(kSystem);
    }
    idle.over();
    return step;
  };
  const Time long_ago = yield_for(clock, habits, 3ms);
  CHECK(wait(10) == Idle::Step::sleep);
  CHECK(wait(10) == Idle::Step::sleep);
  CHECK(wait(10) == Idle::Step::yield);
  CHECK_FALSE(habits.yields_are_long(long_ago));

  habits.forget_long_yields();
  const Time now = yield_for(clock, habits, 3ms);
  for (int i = 0; i < 2; ++i) CHECK(wait(120) == Idle::Step::sleep);  // for more than 1 ms, all in all
  CHECK(habits.yields_are_long(now));
}

TEST_CASE("a wait yields for as long as it is told after it has spun", "[runtime][idle]") {
  SteppingClock clock;
  IdlePolicy policy;
  policy.spin = policy.least_spin = 500us;
  policy.yield = 1ms;
  policy.polls = 0;
  policy.look = 1s;
  IdleHabits habits(policy);
  Idle idle(policy, clock, habits);
  clock.step = 200us;
  std::vector<Idle::Step> steps;
  for (int i = 0; i < 9; ++i) steps.push_back(idle.next({}));
  using enum Idle::Step;
  CHECK(steps == std::vector{spin, spin, spin, yield, yield, yield, yield, yield, sleep});
}

TEST_CASE("a crowded rank gives its core away after one look that was a system call", "[runtime][idle]") {
  const SteppingClock clock;
  const IdlePolicy crowded = IdlePolicy::for_ranks(2, 1);
  IdleHabits habits(crowded);
  Idle idle(crowded, clock, habits);
  CHECK(idle.next(kSystem) == Idle::Step::yield);
  idle.moved();
  for (int look = 0; look < crowded.polls; ++look) CHECK(idle.next({}) == Idle::Step::again);
  CHECK(idle.next({}) == Idle::Step::yield);
}

TEST_CASE("a crowded rank looks again for answers from other cores, once some have come", "[runtime][idle]") {
  const SteppingClock clock;
  const IdlePolicy crowded = IdlePolicy::for_ranks(2, 1);
  IdleHabits habits(crowded);
  Idle idle(crowded, clock, habits);
  constexpr Polled kAnswers{.system = 1, .answers = true};
  CHECK(idle.next(kAnswers) == Idle::Step::yield);
  idle.moved();
  for (int look = 0; look < IdlePolicy::kLooksElsewhere; ++look) CHECK(idle.next(kAnswers) == Idle::Step::again);
  CHECK(idle.next(kAnswers) == Idle::Step::yield);
  idle.moved();
  CHECK(idle.next(kSystem) == Idle::Step::yield);
  idle.moved();
  constexpr Polled kTwoAnswers{.system = 2, .answers = true};
  for (int look = 0; look < IdlePolicy::kLooksElsewhere; look += 2) CHECK(idle.next(kTwoAnswers) == Idle::Step::again);
  CHECK(idle.next(kTwoAnswers) == Idle::Step::yield);
}

TEST_CASE("a rank with a core of its own looks again, system call or not", "[runtime][idle]") {
  const SteppingClock clock;
  const IdlePolicy policy = IdlePolicy::for_ranks(1, 1);
  IdleHabits habits(policy);
  Idle idle(policy, clock, habits);
  for (int look = 0; look < policy.polls; ++look) CHECK(idle.next(kSystem) == Idle::Step::again);
  CHECK(idle.next(kSystem) == Idle::Step::spin);
}

namespace {

/// A rank with a core of its own, as it seemed, that has waited some times for news that came of a yield of such a
/// length.
struct Yielding {
  SteppingClock clock;
  IdlePolicy policy = IdlePolicy::for_ranks(2, 2);
  IdleHabits habits{policy};
  Idle idle{policy, clock, habits};

  void wait(Duration yield) {
    clock.step = 1us;
    while (idle.next({}) != Idle::Step::yield) clock.now();
    yield_for(clock, habits, yield);
    idle.moved();
  }
};

}  // namespace

TEST_CASE("a rank that gets its news by yielding shares its core with whoever has them", "[runtime][idle]") {
  Yielding rank;
  CHECK_FALSE(rank.habits.shares_core());
  for (int i = 0; i < 10; ++i) rank.wait(5us);
  CHECK(rank.habits.shares_core());
  CHECK(rank.idle.next({.system = 1, .answers = true}) == Idle::Step::yield);

  SECTION("until a yield finds nobody else there") {
    rank.wait(200ns);
    CHECK_FALSE(rank.habits.shares_core());
  }
  SECTION("until news come before it yields") {
    rank.idle.moved();
    CHECK(rank.habits.shares_core());
    CHECK(rank.idle.next({}) == Idle::Step::again);
    rank.idle.moved();
    CHECK_FALSE(rank.habits.shares_core());
  }
}

TEST_CASE("a rank that yields to whoever computes has a core of its own all the same", "[runtime][idle]") {
  Yielding rank;
  for (int i = 0; i < 10; ++i) {
    rank.habits.forget_long_yields();
    rank.wait(3ms);
  }
  CHECK_FALSE(rank.habits.shares_core());
}

TEST_CASE("who is told to sleep instead of yielding does so, whatever spinning has paid of late", "[runtime][idle]") {
  for (const Duration spin : {0us, 5us, 50us}) {
    SteppingClock clock;
    IdlePolicy policy;
    policy.yield = 0us;
    IdleHabits habits(policy);
    habits.spin = spin;
    Idle idle(policy, clock, habits);
    clock.step = 1us;
    Idle::Step step = Idle::Step::again;
    for (int i = 0; i < 100 && step != Idle::Step::sleep; ++i) {
      step = idle.next({});
      REQUIRE(step != Idle::Step::yield);
    }
    CHECK(step == Idle::Step::sleep);
  }
}

TEST_CASE("who is told how long to spin does so wherever the news come from", "[runtime][idle]") {
  Yielding rank;
  rank.policy.spin = rank.policy.least_spin = 20us;
  IdleHabits habits(rank.policy);
  yield_for(rank.clock, habits, 5us);
  for (int i = 0; i < 10; ++i) habits.learn(true, true, rank.policy);
  CHECK(habits.spin == 20us);
}
