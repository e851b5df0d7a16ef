#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

#include "cuda/driver_types.hpp"
#include "transport/descriptor.hpp"

namespace rondo::bench {

/// Memory that the processes of one item share, to tell each other handles and how far they are without a system call.
/// Who waits here waits for ever when the other is gone: whoever has started them ends all when one fails.
class Board {
 public:
  static constexpr int kMostRanks = 8;
  /// Where a process that was started for an item finds its board.
  static constexpr int kDescriptor = 3;

  /// What a rank tells the others. Words begin as 0.
  struct alignas(64) Place {
    std::atomic<std::uint64_t> count;    ///< of what it has queued, or done
    std::atomic<std::uint32_t> arrived;  ///< barriers that it has come to
    std::atomic<std::uint32_t> refused;  ///< not 0: the driver does not do for it what was asked
    std::uint32_t word;                  ///< for devices
    pid_t process;
    cuda::IpcMemoryHandle memory;
    cuda::IpcEventHandle event;
  };

  /// A new one, for processes yet to be started. Throws std::system_error.
  static detail::Descriptor create();
  /// Throws std::system_error.
  explicit Board(int descriptor);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// All of it, for devices to map.
  std::span<std::byte> memory() const;
  Place& place(int rank) const { return places_[rank]; }
  /// Until all `size` ranks have come; what they wrote before is seen behind it.
  void barrier(int rank, int size) const;

  template <typename Condition>
  static void wait_until(const Condition& condition) {
    constexpr int kPolls = 200;
    for (int polls = 0; !condition(); ++polls) {
      if (polls >= kPolls) std::this_thread::yield();
    }
  }

 private:
  Place* places_;
};

}  // namespace rondo::bench
