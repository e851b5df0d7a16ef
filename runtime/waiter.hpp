#pragma once

#include "runtime/clock.hpp"

namespace rondo::detail {

/// Where a thread blocks when nothing moves. `EpollWaiter` blocks in the kernel; a simulation lets virtual time pass.
class Waiter {
 public:
  virtual ~Waiter() = default;

  /// Returns when a watched descriptor is ready, after `wake`, or after `timeout`, whatever is first.
  virtual void wait(Duration timeout) = 0;
  /// Ends a `wait` that is in progress, or the next one. From any thread.
  virtual void wake() noexcept = 0;

  /// Descriptors watched for reading (and for writing while `writable`).
  virtual void watch(int descriptor, bool writable) = 0;
  virtual void forget(int descriptor) noexcept = 0;
};

}  // namespace rondo::detail
