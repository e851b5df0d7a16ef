#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/clock.hpp"
#include "runtime/home_core.hpp"

namespace rondo::detail {

/// How long a rank looks for news before it gives its core away. With a core for each rank, looking is cheaper than
/// anything; with more ranks than cores, whoever looks keeps the core from whoever has the news. (bench/README.md has
/// what all_reduce takes by each of these.)
struct IdlePolicy {
  static constexpr int kPollsOnSharedCore = 4;
  static constexpr int kLooksElsewhere = 10;          ///< where cores are shared, by system calls; some microseconds
  int polls = 20;                                     ///< look again at once, so often, without asking what time it is
  int system_polls = 20;                              ///< the same where each look is a system call
  Duration spin{std::chrono::microseconds(50)};       ///< then for so long at the most
  Duration least_spin{std::chrono::microseconds(5)};  ///< and at the least, when spinning has not paid of late
  Duration yield{std::chrono::milliseconds(1)};       ///< then yield between looks for so long; then sleep
  Duration look{std::chrono::microseconds(200)};      ///< as often look at what costs a system call, too
  /// A yield that took longer gave the core to somebody who computes, and not to a rank that has the news: of those on
  /// this core each is content with kTurn, and with less unless it has just got many.
  Duration long_yield{std::chrono::milliseconds(1)};
  static constexpr Duration kTurn = std::chrono::microseconds(200);

  static IdlePolicy for_ranks(int ranks_here, int usable_cores) {
    IdlePolicy policy;
    if (ranks_here > usable_cores) {
      policy.long_yield = std::max(policy.long_yield, (ranks_here + usable_cores - 1) / usable_cores * kTurn);
      policy.polls = kPollsOnSharedCore;
      policy.system_polls = 0;
      policy.spin = policy.least_spin = Duration::zero();
    }
    return policy;
  }
};

/// What waiting has taught: it outlives the waits.
class IdleHabits {
 public:
  explicit IdleHabits(const IdlePolicy& policy, const HomeCore& home = HomeCore())
      : spin(policy.spin), limit_(policy.long_yield), home_(home) {}

  /// A yield that took no longer found nobody else there.
  static constexpr Duration kVainYield = std::chrono::microseconds(1);
  /// A long one found others who compute, unless it brought so much news for each time of the limit.
  static constexpr std::size_t kWorthwhile = 16;
  /// Then no yield is tried for a while: at first for about what it has cost, for longer each time, and for less again
  /// as short ones come.
  static constexpr Duration kLeastAvoided = std::chrono::milliseconds(2);
  static constexpr Duration kMostAvoided = std::chrono::seconds(1);
  /// Or until so many waits in a row in which it slept instead were short: the others seem to have done with computing.
  static constexpr int kFewestShortSleeps = 2;
  /// They had not if a yield within this time is long: beside a process that computes the others have the core for some
  /// milliseconds, too. Then so many times as many short sleeps are needed, up to the most; the fewest again once no
  /// yield has been long for that time.
  static constexpr Duration kSoon = std::chrono::milliseconds(20);
  static constexpr int kTimesAsMany = 4;
  static constexpr int kMostShortSleeps = 100'000;

  /// Gives the core away, to be had back after everybody else on it; remembers when that took long. May come back on
  /// another one. Takes and returns what time it is.
  Time yield(const Clock& clock, Time before) {
    ::sched_yield();
    Time after = clock.now();
    Yields& yields = yields_[many_];
    useful_yield_ = after - before > kVainYield && after - before <= limit_;
    if (after - before > limit_) {
      home_.found_computing(after);
      long_yield_ = after - before;
      brought_ = 0;
      before_long_yield_ = yields;
      yields.none_until = after + yields.avoided;
      yields.short_sleeps = 0;
      yields.avoided = std::min(2 * yields.avoided, kMostAvoided);
      if (before - yields.resumed < kSoon)
        yields.needed_sleeps = std::min(kTimesAsMany * yields.needed_sleeps, kMostShortSleeps);
      yields.resumed = {};
      yields.last_long = after;
    } else {
      long_yield_ = Duration::zero();
      yields.avoided = std::max(yields.avoided - yields.avoided / 64, kLeastAvoided);
      if (after - yields.last_long >= kSoon) yields.needed_sleeps = kFewestShortSleeps;
      if (useful_yield_ && home_.found_waiting(after)) after = clock.now();
    }
    return after;
  }
  /// So many frames, or steps of others, have come since: a long yield that brought many before the next one gave the
  /// core to ranks that worked for this one.
  void brought(std::size_t news) noexcept {
    if (long_yield_ == Duration::zero()) return;
    brought_ += news;
    if (brought_ < kWorthwhile * static_cast<std::size_t>(long_yield_ / limit_)) return;
    long_yield_ = Duration::zero();
    yields_[many_] = before_long_yield_;
    home_.forget_computing();
  }
  /// A wait in which this rank slept, as yields are long, has had its news now, after so long.
  void slept(Duration time, Time now) noexcept {
    Yields& yields = yields_[many_];
    yields.short_sleeps = time <= limit_ ? yields.short_sleeps + 1 : 0;
    if (yields.short_sleeps < yields.needed_sleeps) return;
    yields.short_sleeps = 0;
    yields.none_until = {};
    yields.resumed = now;
  }
  /// Others compute on this core: who sleeps is woken in their stead, who yields waits until they have had enough.
  bool yields_are_long(Time now) const noexcept { return now < yields_[many_].none_until; }

  /// So many bytes are about to be moved. While they are many, and until all have them, the others are long at copying
  /// theirs; that teaches nothing about when they are few.
  /// `home`: the core for the waits until the next such call.
  void expect(std::size_t bytes, std::optional<int> home = std::nullopt) noexcept {
    home_.belong_to(home);
    constexpr std::size_t kMany = std::size_t{256} << 10;
    const std::size_t many = bytes >= kMany ? 1 : 0;
    if (std::exchange(many_, many) != many) {
      long_yield_ = Duration::zero();
      if (many_ == 0) home_.forget_computing();
    }
    if (many_ != 0) yields_[0] = {};
  }
  void forget_long_yields() noexcept {
    yields_ = {};
    long_yield_ = Duration::zero();
    home_.forget_computing();
  }

  /// A wait is over: whether it would have paid to spin through it, and whether it ended with a yield.
  void learn(bool spinning_pays, bool yielded, const IdlePolicy& policy) noexcept {
    constexpr Duration kLeast = std::chrono::microseconds(1);
    if (yielded && useful_yield_ && policy.least_spin < policy.spin) {
      spin = spin > kLeast ? spin / 2 : Duration::zero();
    } else if (spinning_pays) {
      spin = std::min(std::max(2 * spin, kLeast), policy.spin);
    } else {
      spin = std::max(spin / 2, std::min(policy.least_spin, policy.spin));
    }
  }
  /// Whoever has the news is on this core, too: because ranks are many, or because the system has put them there, as it
  /// may where others compute.
  bool shares_core() const noexcept { return spin == Duration::zero(); }
  Duration spin;  ///< how long it has paid to spin of late

 private:
  struct Yields {
    Time none_until{};
    Duration avoided = kLeastAvoided;
    int short_sleeps = 0;
    int needed_sleeps = kFewestShortSleeps;
    Time resumed{};  ///< when short sleeps were enough, since the last long yield
    Time last_long{};
  };

  Duration limit_;  ///< of a short yield
  HomeCore home_;
  bool useful_yield_ = false;  ///< the last one had somebody else go on, for a short time
  Duration long_yield_{};      ///< the last yield, if it was long and it is not known yet what it brought
  std::size_t brought_ = 0;
  Yields before_long_yield_;
  std::array<Yields, 2> yields_;  ///< while few bytes are moved, while many are
  std::size_t many_ = 0;
};

/// What was looked at in vain.
struct Polled {
  int system = 0;        ///< by so many system calls
  bool answers = false;  ///< all of it is to come from ranks on other cores that have been sent something
};

/// What to do next when nothing moved.
class Idle {
 public:
  enum class Step { again, spin, yield, look, sleep };

  Idle(const IdlePolicy& policy, const Clock& clock, IdleHabits& habits)
      : policy_(policy), clock_(clock), habits_(habits) {}

  void moved() noexcept {
    some_came_ = true;
    if (polls_ == 0) return;
    polls_ = 0;
    // It has paid to spin if that would have bridged the wait; if not, somebody else may have needed this core.
    const bool may_pay = policy_.spin > Duration::zero();
    const bool pays = may_pay && (!waits_ || clock_.now() - since_ < policy_.spin);
    waits_ = false;
    habits_.learn(pays, std::exchange(yielded_, false), policy_);
  }

  /// Whether the first step is to yield, before any look. (Not to sleep: what has come already wakes nobody.)
  bool begin_with_yield() {
    if (policy_.yield == Duration::zero()) return false;
    const Time now = clock_.now();
    if (habits_.yields_are_long(now)) return false;
    polls_ = 1;
    begin_to_wait(now);
    return yielded_ = true;
  }

  Step next(const Polled& polled) {
    yielded_ = false;
    if (++polls_ <= polls(polled)) return Step::again;
    const Time now = clock_.now();
    begin_to_wait(now);
    if (now - looked_ >= policy_.look) {
      looked_ = now;
      return Step::look;
    }
    if (now - since_ < habits_.spin) return Step::spin;
    const bool yields = now - since_ - habits_.spin < policy_.yield;
    yielded_ = yields && !habits_.yields_are_long(now);
    if (yields && !yielded_ && !asleep_since_) asleep_since_ = now;
    return yielded_ ? Step::yield : Step::sleep;
  }

  /// What time it was when a step was last a matter of time.
  Time known_time() const noexcept { return known_time_; }

  /// All is there that was waited for.
  void over() noexcept {
    if (!asleep_since_) return;
    const Time now = clock_.now();
    habits_.slept(now - *asleep_since_, now);
  }

 private:
  void begin_to_wait(Time now) noexcept {
    known_time_ = now;
    if (!std::exchange(waits_, true)) since_ = looked_ = now;
  }
  int polls(const Polled& polled) const noexcept {
    if (!habits_.shares_core()) return polled.system > 0 ? policy_.system_polls : policy_.polls;
    if (polled.system == 0) return IdlePolicy::kPollsOnSharedCore;
    // Where cores have been dealt out, they are at work, and about as far as this rank: to yield to all others here
    // takes longer.
    const bool soon = some_came_ && polled.answers && policy_.spin == Duration::zero();
    return soon ? IdlePolicy::kLooksElsewhere / polled.system : 0;
  }

  const IdlePolicy policy_;
  const Clock& clock_;
  IdleHabits& habits_;
  int polls_ = 0;
  bool waits_ = false;                ///< since then, longer than the first looks
  bool yielded_ = false;              ///< before the last look
  std::optional<Time> asleep_since_;  ///< at first; where it would have yielded, were yields not long
  bool some_came_ = false;            ///< since it waits
  Time since_{};
  Time looked_{};
  Time known_time_{};
};

}  // namespace rondo::detail
