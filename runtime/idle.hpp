#pragma once

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

/// What to do next when nothing moved.
class Idle {
 public:
  enum class Step { spin, yield, look, sleep };

  /// `spin` is how long it has paid to spin of late: it outlives the wait, and adapts to what the waits find.
  Idle(const IdlePolicy& policy, const Clock& clock, Duration& spin) : policy_(policy), clock_(clock), spin_(spin) {}

  void moved() noexcept {
    if (polls_ == 0) return;
    // It has paid to spin if that would have bridged the wait; if not, somebody else may have needed this core.
    const bool paid = polls_ <= policy_.polls || clock_.now() - since_ < policy_.spin;
    spin_ = paid ? std::min(2 * spin_, policy_.spin) : std::max(spin_ / 2, std::min(policy_.least_spin, policy_.spin));
    polls_ = 0;
  }

  Step next() {
    if (++polls_ <= policy_.polls) return Step::spin;
    const Time now = clock_.now();
    if (polls_ == policy_.polls + 1) since_ = looked_ = now;
    if (now - since_ < spin_) return Step::spin;
    if (now - since_ >= policy_.yield) return Step::sleep;
    if (now - looked_ < policy_.look) return Step::yield;
    looked_ = now;
    return Step::look;
  }

 private:
  const IdlePolicy policy_;
  const Clock& clock_;
  Duration& spin_;
  int polls_ = 0;
  Time since_{};
  Time looked_{};
};

}  // namespace rondo::detail
