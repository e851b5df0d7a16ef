#pragma once

#include <sched.h>

#include <cstddef>

#include "tests/support/ranks.hpp"

namespace rondo::testing {

/// Keeps this thread, and those that it starts, on the one of its cores with this number.
class OnCore {
 public:
  explicit OnCore(int number) {
    require(::sched_getaffinity(0, sizeof before_, &before_) == 0, "sched_getaffinity");
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t core = 0; CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &before_) && number-- == 0) CPU_SET(core, &one);
    }
    require(::sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
  }
  ~OnCore() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace rondo::testing
