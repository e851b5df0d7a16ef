#pragma once

#include <atomic>
#include <cstdint>

namespace rondo::detail {

/// Who publishes in shared memory must wake a process that sleeps; who goes to sleep must not miss what was just
/// published. So one publishes and then looks for the other's word `resting`, the other writes that word and then looks
/// for news, and neither look may overtake the write before it. A fence would do; it would cost each message as
/// much as the message itself. Here the sleeper alone pays: it has the kernel order the writes of all others
/// (membarrier).
class Resting {
 public:
  using Word = std::atomic<std::uint32_t>;

  /// After publishing. True: the other sleeps, and it is the caller who must wake it.
  static bool must_wake(Word& word) noexcept {
    if (ordered_by_kernel_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (word.load(std::memory_order_relaxed) == 0) return false;
    } else if (word.fetch_add(0, std::memory_order_acq_rel) == 0) {
      return false;
    }
    return word.exchange(0, std::memory_order_acq_rel) != 0;
  }

  /// Before the last look for news: after this, whoever published earlier is seen, and whoever publishes later sees the
  /// words that were set to 1 before.
  static void order() noexcept;

 private:
  static const bool ordered_by_kernel_;
};

}  // namespace rondo::detail
