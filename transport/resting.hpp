#pragma once

#include <atomic>
#include <cstdint>

namespace rondo::detail {

/// Who publishes in shared memory must wake a process that sleeps; who goes to sleep must not miss what was just
/// published. So one publishes and then looks for the other's word `resting`, the other writes that word and then looks
/// for news, and neither look may overtake the write before it. A fence would do; it would cost each message as
/// much as the message itself. Here the sleeper alone pays: it has the kernel order the writes of all others
/// (membarrier). Where one of the two may not call that, the publisher orders its own after all: it knows of itself,
/// and a sleeper who can order others says so in the word as long as it is awake.
class Resting {
 public:
  /// Zero at first.
  using Word = std::atomic<std::uint32_t>;

  /// Of its own word: it is about to sleep, or is back; and once before, so that publishers need not order theirs.
  static void rest(Word& word, bool resting) noexcept {
    const bool in_order = orders_others_.load(std::memory_order_relaxed);
    word.store(resting ? kRests : in_order ? kAwakeInOrder : kAwake, std::memory_order_release);
  }

  /// Whether a look at the word is all that a publisher needs to know that the other is awake.
  static bool awake_in_order(const Word& word) noexcept {
    return ordered_by_kernel_ && word.load(std::memory_order_relaxed) == kAwakeInOrder;
  }

  /// After publishing. True: the other sleeps, and it is the caller who must wake it.
  static bool must_wake(Word& word) noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (awake_in_order(word)) return false;
    if (word.fetch_add(0, std::memory_order_acq_rel) != kRests) return false;
    std::uint32_t rests = kRests;
    return word.compare_exchange_strong(rests, kAwake, std::memory_order_acq_rel);
  }

  /// Before the last look for news: after this, whoever published earlier is seen, and whoever publishes later sees the
  /// words that were set to 1 before.
  static void order() noexcept;

 private:
  static constexpr std::uint32_t kAwake = 0;
  static constexpr std::uint32_t kRests = 1;
  static constexpr std::uint32_t kAwakeInOrder = 2;

  static const bool ordered_by_kernel_;
  static std::atomic<bool> orders_others_;
};

}  // namespace rondo::detail
