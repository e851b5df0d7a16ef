#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace rondo::detail {

/// A mutex that costs who finds it free one atomic instruction, and a plain store to give back: every public call
/// holds one. Nobody is woken when it is given back: who finds it taken looks again, giving its core away in between.
/// For what is held as long as a step takes, and given away when others want it.
class EntryLock {
 public:
  bool try_lock() noexcept {
    return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept {
    for (int looks = 0; !try_lock(); ++looks) {
      if (looks < kYields) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(kSleep);  // its holder copies something long, or needs this very core
      }
    }
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kYields = 100;
  static constexpr std::chrono::microseconds kSleep{50};

  std::atomic<bool> held_{false};
};

}  // namespace rondo::detail
