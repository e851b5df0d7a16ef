#pragma once

#include <new>

#include "cuda/driver.hpp"

namespace rondo::cuda {

/// A share in a device's primary context: the one that the CUDA runtime and frameworks use too, so that their memory
/// and streams are ours; and the only one by which handles of other processes may be opened.
///
/// Any thread may use it. It is current on none by itself: see `Current`. What was made in it must be gone before it.
class PrimaryContext {
 public:
  /// Throws CudaError. `driver` outlives the context.
  PrimaryContext(const Driver& driver, Device device);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const Driver& driver() const noexcept { return driver_; }
  Device device() const noexcept { return device_; }
  ContextHandle handle() const noexcept { return handle_; }

 private:
  const Driver& driver_;
  Device device_;
  ContextHandle handle_ = nullptr;
};

/// Makes a context current on this thread as long as it lives; then what was current before is so again, be it another
/// context or none. Destroyed by the thread that made it, in the reverse order. One within another of the same context
/// takes no call of the driver; so nobody else's code, which might make another context current, runs meanwhile.
///
/// Calls meanwhile are rondo's own: they neither fail nor spoil the graph where the thread, or another, is capturing
/// streams of its own.
class [[nodiscard]] Current {
 public:
  /// Throws CudaError.
  explicit Current(const PrimaryContext& context);
  /// False where the driver refuses.
  Current(const PrimaryContext& context, std::nothrow_t) noexcept;
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  explicit operator bool() const noexcept { return is_current_; }

 private:
  Result begin(const PrimaryContext& context) noexcept;

  const Driver& driver_;
  const ContextHandle before_;  ///< what the Current around this one made so; nullptr: there is none
  bool is_current_ = false;
  CaptureMode mode_ = CaptureMode::relaxed;  ///< at the end that of before
};

/// A stream of rondo's own, which neither waits for nor holds up the default stream, and goes first where the device
/// has a choice: others wait for what it moves. The context outlives it; any thread may use it.
class Stream {
 public:
  explicit Stream(const PrimaryContext& context);
  /// What is still queued runs on.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const noexcept { return handle_; }
  /// Whether all that was queued is done. Throws CudaError with these facts, also for what failed on the device in the
  /// meantime.
  bool idle(const CudaFacts& facts = {}) const;
  /// Blocks the host until it is.
  void synchronize() const;

 private:
  const PrimaryContext& context_;
  StreamHandle handle_ = nullptr;
};

}  // namespace rondo::cuda
