#pragma once

#include <sched.h>

#include <algorithm>

#include "runtime/clock.hpp"

namespace rondo::detail {

/// How long a rank looks for news before it gives its core away. With a core for each rank, looking is cheaper than
/// anything; with more ranks than cores, whoever looks keeps the core from whoever has the news.
struct IdlePolicy {
  int polls = 20;                                     ///< look again at once, so often, without asking what time it is
  Duration spin{std::chrono::microseconds(50)};       ///< then for so long at the most
  Duration least_spin{std::chrono::microseconds(5)};  ///< and at the least, when spinning has not paid of late
  Duration yield{std::chrono::milliseconds(1)};       ///< then yield between looks until so long has passed; then sleep
  Duration look{std::chrono::microseconds(200)};      ///< as often look at what costs a system call, too

  static IdlePolicy for_ranks(int ranks_here, int usable_cores) {
    IdlePolicy policy;
    if (ranks_here > usable_cores) {
      policy.polls = 4;
      policy.spin = policy.least_spin = Duration::zero();
    }
    return policy;
  }
};

/// What waiting has taught: it outlives the waits.
struct IdleHabits {
  explicit IdleHabits(const IdlePolicy& policy) : spin(policy.spin) {}

  /// A yield that took so long gave the core to somebody who computes, and not to a rank that has the news.
  static constexpr Duration kLongYield = std::chrono::milliseconds(1);
  /// Then no yield is tried for a while: at first for about what it has cost, for longer each time, and for less again
  /// as short ones come.
  static constexpr Duration kLeastAvoided = std::chrono::milliseconds(2);
  static constexpr Duration kMostAvoided = std::chrono::seconds(1);

  /// Gives the core away, to be had back after everybody else on it; remembers when that took long. Takes and returns
  /// what time it is.
  Time yield(const Clock& clock, Time before) {
    ::sched_yield();
    const Time after = clock.now();
    if (after - before > kLongYield) {
      no_yield_until = after + avoided;
      avoided = std::min(2 * avoided, kMostAvoided);
    } else {
      avoided = std::max(avoided - avoided / 64, kLeastAvoided);
    }
    return after;
  }
  /// Others compute on this core: who sleeps is woken in their stead, who yields waits until they have had enough.
  bool yields_are_long(Time now) const noexcept { return now < no_yield_until; }

  void forget_long_yields() noexcept {
    no_yield_until = {};
    avoided = kLeastAvoided;
  }

  Duration spin;  ///< how long it has paid to spin of late
  Time no_yield_until{};
  Duration avoided = kLeastAvoided;
};

/// What to do next when nothing moved.
class Idle {
 public:
  enum class Step { again, spin, yield, look, sleep };

  Idle(const IdlePolicy& policy, const Clock& clock, IdleHabits& habits)
      : policy_(policy), clock_(clock), habits_(habits) {}

  void moved() noexcept {
    if (polls_ == 0) return;
    // It has paid to spin if that would have bridged the wait; if not, somebody else may have needed this core.
    const bool paid = polls_ <= policy_.polls || clock_.now() - since_ < policy_.spin;
    habits_.spin = paid ? std::min(2 * habits_.spin, policy_.spin)
                        : std::max(habits_.spin / 2, std::min(policy_.least_spin, policy_.spin));
    polls_ = 0;
  }

  Step next() {
    if (++polls_ <= policy_.polls) return Step::again;
    const Time now = clock_.now();
    if (polls_ == policy_.polls + 1) since_ = looked_ = now;
    if (now - looked_ >= policy_.look) {
      looked_ = now;
      return Step::look;
    }
    if (now - since_ < habits_.spin) return Step::spin;
    return now - since_ >= policy_.yield || habits_.yields_are_long(now) ? Step::sleep : Step::yield;
  }

 private:
  const IdlePolicy policy_;
  const Clock& clock_;
  IdleHabits& habits_;
  int polls_ = 0;
  Time since_{};
  Time looked_{};
};

}  // namespace rondo::detail
