#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "runtime/clock.hpp"

namespace rondo::detail {

/// How long a rank looks for news before it gives its core away. With a core for each rank, looking is cheaper than
/// anything; with more ranks than cores, whoever looks keeps the core from whoever has the news.
struct IdlePolicy {
  int polls = 20;                                     ///< look again at once, so often, without asking what time it is
  int system_polls = 20;                              ///< the same where each look is a system call
  Duration spin{std::chrono::microseconds(50)};       ///< then for so long at the most
  Duration least_spin{std::chrono::microseconds(5)};  ///< and at the least, when spinning has not paid of late
  Duration yield{std::chrono::milliseconds(1)};       ///< then yield between looks until so long has passed; then sleep
  Duration look{std::chrono::microseconds(200)};      ///< as often look at what costs a system call, too

  static IdlePolicy for_ranks(int ranks_here, int usable_cores) {
    IdlePolicy policy;
    if (ranks_here > usable_cores) {
      policy.polls = 4;
      policy.system_polls = 0;
      policy.spin = policy.least_spin = Duration::zero();
    }
    return policy;
  }
};

/// What waiting has taught: it outlives the waits.
class IdleHabits {
 public:
  explicit IdleHabits(const IdlePolicy& policy) : spin(policy.spin) {}

  /// A yield that took so long gave the core to somebody who computes, and not to a rank that has the news.
  static constexpr Duration kLongYield = std::chrono::milliseconds(1);
  /// Unless it brought so much news for each such time.
  static constexpr std::size_t kWorthwhile = 16;
  /// Then no yield is tried for a while: at first for about what it has cost, for longer each time, and for less again
  /// as short ones come.
  static constexpr Duration kLeastAvoided = std::chrono::milliseconds(2);
  static constexpr Duration kMostAvoided = std::chrono::seconds(1);

  /// Gives the core away, to be had back after everybody else on it; remembers when that took long. Takes and returns
  /// what time it is.
  Time yield(const Clock& clock, Time before) {
    ::sched_yield();
    const Time after = clock.now();
    Yields& yields = yields_[many_];
    if (after - before > kLongYield) {
      long_yield_ = after - before;
      brought_ = 0;
      before_long_yield_ = yields;
      yields.none_until = after + yields.avoided;
      yields.avoided = std::min(2 * yields.avoided, kMostAvoided);
    } else {
      long_yield_ = Duration::zero();
      yields.avoided = std::max(yields.avoided - yields.avoided / 64, kLeastAvoided);
    }
    return after;
  }
  /// So many frames, or steps of others, have come since: a long yield that brought many before the next one gave the
  /// core to ranks that worked for this one.
  void brought(std::size_t news) noexcept {
    if (long_yield_ == Duration::zero()) return;
    brought_ += news;
    if (brought_ < kWorthwhile * static_cast<std::size_t>(long_yield_ / kLongYield)) return;
    long_yield_ = Duration::zero();
    yields_[many_] = before_long_yield_;
  }
  /// Others compute on this core: who sleeps is woken in their stead, who yields waits until they have had enough.
  bool yields_are_long(Time now) const noexcept { return now < yields_[many_].none_until; }

  /// So many bytes are about to be moved. While they are many, and until all have them, the others are long at copying
  /// theirs; that teaches nothing about when they are few.
  void expect(std::size_t bytes) noexcept {
    constexpr std::size_t kMany = std::size_t{256} << 10;
    const std::size_t many = bytes >= kMany ? 1 : 0;
    if (std::exchange(many_, many) != many) long_yield_ = Duration::zero();
    if (many_ != 0) yields_[0] = {};
  }
  void forget_long_yields() noexcept { yields_ = {}; }

  Duration spin;  ///< how long it has paid to spin of late

 private:
  struct Yields {
    Time none_until{};
    Duration avoided = kLeastAvoided;
  };

  Duration long_yield_{};  ///< the last yield, if it was long and it is not known yet what it brought
  std::size_t brought_ = 0;
  Yields before_long_yield_;
  std::array<Yields, 2> yields_;  ///< while few bytes are moved, while many are
  std::size_t many_ = 0;
};

/// What to do next when nothing moved.
class Idle {
 public:
  enum class Step { again, spin, yield, look, sleep };

  Idle(const IdlePolicy& policy, const Clock& clock, IdleHabits& habits)
      : policy_(policy), clock_(clock), habits_(habits) {}

  void moved() noexcept {
    if (polls_ == 0) return;
    polls_ = 0;
    // It has paid to spin if that would have bridged the wait; if not, somebody else may have needed this core.
    const bool paid = !std::exchange(waits_, false) || clock_.now() - since_ < policy_.spin;
    habits_.spin = paid ? std::min(2 * habits_.spin, policy_.spin)
                        : std::max(habits_.spin / 2, std::min(policy_.least_spin, policy_.spin));
  }

  Step next(bool polled_system) {
    const int polls = polled_system ? policy_.system_polls : policy_.polls;
    if (++polls_ <= polls) return Step::again;
    const Time now = clock_.now();
    if (!waits_) since_ = looked_ = now;
    waits_ = true;
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
  bool waits_ = false;  ///< since then, longer than the first looks
  Time since_{};
  Time looked_{};
};

}  // namespace rondo::detail
