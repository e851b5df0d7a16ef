#pragma once

#include <sched.h>

#include <array>
#include <optional>

namespace rondo::bench {

/// The first two cores that this process may use. Nothing: it has but one.
std::optional<std::array<int, 2>> first_two_cores();

/// Keeps this thread, and those that it starts, on one core while it lives.
class OnCore {
 public:
  explicit OnCore(int core);
  ~OnCore();
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  cpu_set_t before_{};
  bool moved_ = false;
};

}  // namespace rondo::bench
