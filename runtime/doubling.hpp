#pragma once

#include <algorithm>

#include "runtime/clock.hpp"

namespace rondo::detail {

/// When to say once more that something lasts: after so long, after twice as long, after four times, and so on.
class Doubling {
 public:
  bool due(Duration lasted, Duration first) noexcept {
    if (lasted < first * (1LL << std::min(times_, 30))) return false;
    ++times_;
    return true;
  }

 private:
  int times_ = 0;
};

}  // namespace rondo::detail
