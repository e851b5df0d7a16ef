#pragma once

#include <poll.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/clock.hpp"

namespace rondo::detail {

/// The descriptors that a sleep ends for, put together for each sleep.
class WakeList {
 public:
  WakeList() { polled_.reserve(64); }
  void clear() noexcept {
    polled_.clear();
    unasked_.reset();
  }
  /// One that has something to read, or while `writable` can be written to. Negative: none.
  void add(int descriptor, bool writable) {
    if (descriptor >= 0) polled_.push_back({descriptor, static_cast<short>(writable ? POLLIN | POLLOUT : POLLIN), 0});
  }
  std::span<pollfd> polled() noexcept { return polled_; }

  /// `polled` says what has come.
  void waited() noexcept { unasked_ = 0; }
  /// Whether a wait has found that nothing had come for a descriptor. Those that were added are to be asked for in that
  /// order; of another it is not known.
  bool quiet(int descriptor) noexcept {
    if (!unasked_ || *unasked_ == polled_.size() || polled_[*unasked_].fd != descriptor) return false;
    return polled_[(*unasked_)++].revents == 0;
  }

 private:
  std::vector<pollfd> polled_;
  std::optional<std::size_t> unasked_;  ///< from here on; nothing: nobody has waited
};

/// Where a thread blocks when nothing moves. `PollWaiter` blocks in the kernel; a simulation lets virtual time pass.
class Waiter {
 public:
  virtual ~Waiter() = default;

  /// Returns when one of `wakes` is ready, after `wake`, or after `timeout`, whatever is first. One thread at a time.
  virtual void wait(WakeList& wakes, Duration timeout) = 0;
  /// Ends a `wait` that is in progress, or the next one. From any thread.
  virtual void wake() noexcept = 0;
};

}  // namespace rondo::detail
