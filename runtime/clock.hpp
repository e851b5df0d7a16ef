#pragma once

#include <chrono>

namespace rondo::detail {

using Duration = std::chrono::nanoseconds;
using Time = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// For so long from now on: for ever, where that is more than a clock can tell.
constexpr Time after(Time now, Duration duration) {
  return duration > Time::max() - now ? Time::max() : now + duration;
}

/// What time it is: the machine's steady clock, or a simulation's virtual one.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Time now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace rondo::detail
