#pragma once

#include "runtime/clock.hpp"
#include "runtime/waiter.hpp"

namespace rondo::testing {

/// Time passes when a test says so.
struct SetClock final : detail::Clock {
  detail::Time now() const override {
    ++reads;
    return time;
  }
  detail::Time time{};
  mutable int reads = 0;
};

/// Nobody sleeps, so nobody is woken.
struct NoWaiter final : detail::Waiter {
  void wait(detail::WakeList&, detail::Duration) override { ++waits; }
  void wake() noexcept override {}
  int waits = 0;
};

}  // namespace rondo::testing
