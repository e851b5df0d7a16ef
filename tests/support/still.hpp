#pragma once

#include "runtime/clock.hpp"
#include "runtime/waiter.hpp"

namespace rondo::testing {

/// Time passes when a test says so.
struct SetClock final : detail::Clock {
  detail::Time now() const override { return time; }
  detail::Time time{};
};

/// Nobody sleeps, so nobody is woken.
struct NoWaiter final : detail::Waiter {
  void wait(detail::Duration) override {}
  void wake() noexcept override {}
  void watch(int, bool) override {}
  void forget(int) noexcept override {}
};

}  // namespace rondo::testing
