#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <rondo/device_span.hpp>
#include <rondo/export.hpp>
#include <rondo/status.hpp>

namespace rondo {

namespace detail {
class Engine;
class Waitable;
}  // namespace detail

/// The handle of an asynchronous operation. Its buffers belong to the operation until `wait` has returned (or thrown).
///
/// Progress: whoever waits drives all communication of this process; once an operation was left unfinished for about a
/// millisecond, a helper thread drives while the caller computes.
///
/// Destroying a Work whose operation is unfinished waits for it (a failure is logged, not thrown). While an exception
/// unwinds the caller, the operation is given up instead: a message is taken back, and a collective fails on all ranks.
///
/// Of the memory of a device: what has been queued there when an operation fails, by whichever rank, is not taken back.
/// Who uses a buffer again after an error has to have synchronised the device first, on all ranks of the operation.
class RONDO_EXPORT Work {
 public:
  Work() noexcept;
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  /// Blocks until the operation is complete. Throws Error when it failed or its deadline passed. Once it has returned
  /// or thrown, the Work is no longer valid, and waiting again does nothing.
  void wait();
  /// The same for at most `duration`; false: not complete yet, and nothing has been given up.
  bool wait_for(std::chrono::nanoseconds duration);
  /// Of the memory of a device: blocks until the copies or kernels of the operation are queued, by whichever rank, and
  /// lets what is queued on the stream from here on come after them. The Work is no longer valid then, though further
  /// calls make further streams wait; a copy that fails on the device is logged. What is queued is not taken back, also
  /// where the other rank gives the message up. A message that goes through the host is copied once both streams have
  /// come to their calls, the last of it when all has come, or all but the last 2 MiB have left; so is one that is
  /// copied directly while 4 others wait on the device. No stream ever waits for what the host has yet to queue, so it
  /// may be synchronised at any time. For an operation on memory of the host it waits as `wait` does. Throws
  /// Errc::invalid_argument, and the Work is valid then, while the stream is being captured into a graph.
  void wait_on(CudaStream stream);
  /// True when the operation is complete, in which case `wait` will not block. Looks for news once, never blocks.
  bool test();

  /// Of a receive that `wait`, `wait_for` or `test` has seen complete, or that `wait_on` has left to the device: the
  /// message has been matched then.
  const Status& status() const noexcept { return status_; }
  /// There is an operation that has not been waited for.
  bool valid() const noexcept { return waitable_ != nullptr; }

 private:
  friend class Communicator;
  friend struct WorkAccess;

  Work(std::shared_ptr<detail::Engine> engine, std::unique_ptr<detail::Waitable> waitable);
  friend RONDO_EXPORT std::size_t wait_any(std::span<Work> works);

  static std::size_t wait_for_any(std::span<Work> works);
  void give_up() noexcept;

  std::shared_ptr<detail::Engine> engine_;
  std::unique_ptr<detail::Waitable> waitable_;
  std::uint64_t later_ = 0;  ///< what the engine knows it by that only streams wait for
  Status status_;
};

/// Waits for all. Throws the first failure, in the order given, after all have ended.
RONDO_EXPORT void wait_all(std::span<Work> works);

/// Waits until one is complete, waits for it, and returns its index; `works.size()` when none is valid. Throws the
/// failure of one that has failed, which is then the one that is no longer valid.
RONDO_EXPORT std::size_t wait_any(std::span<Work> works);

}  // namespace rondo
