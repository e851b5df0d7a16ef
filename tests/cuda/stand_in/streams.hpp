#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>

#include "cuda/driver_types.hpp"

namespace rondo::cuda {

/// A thread that does what is queued, one after the other; before each it may wait for as long as the seed says.
/// Nothing joins the thread: a destroyed stream does what it has left and goes, and may never come to its end when
/// another process is dead that it waits for. Whoever waits for the stream keeps it, whatever becomes of it meanwhile.
struct StreamState {
  static std::shared_ptr<StreamState> start(int on_device, std::uint64_t seed, bool is_blocking);
  StreamState(int on_device, std::uint64_t seed, bool is_blocking);

  const int device;
  /// The default stream of a real driver and this one would wait for each other.
  const bool blocking;

  /// Mistake: it is being captured. A real driver would make the work part of the graph, and not do it.
  void queue(std::function<void()> work);
  /// The same of what an idle stream need not do itself: on a real driver a record of an event there is done at once.
  void queue_or_do(const std::function<void()>& work);
  /// Where it is late it may say so a little late, too.
  bool idle();
  void synchronize();
  /// What becomes of it: false when it is so already.
  bool capture(bool on);
  bool capturing();
  /// No more is queued: the thread ends when all is done.
  void end();

 private:
  void work_on();

  std::minstd_rand random_;
  const bool delays_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool notices_ = true;  ///< that it is idle
  bool ended_ = false;
  bool capturing_ = false;
};

}  // namespace rondo::cuda

namespace rondo::stand_in {

/// The names that a driver has for its default streams: that of all threads, which is null, too, and that of each.
inline constexpr std::uintptr_t kDefaultOfAll = 1, kDefaultOfThread = 2;

/// The stream that a handle means, null being the default one of the current device. Mistake: it was destroyed.
cuda::StreamState& stream_of(cuda::StreamHandle handle);
/// Blocks until all streams of a device are idle, in this process.
void synchronize_device(int device);
/// Whether a stream of a device is captured for which its default stream would wait.
bool captures_for_default(int device);

/// Where there is a seed: keeps the caller for as long as it says.
void be_late();

/// Whether a stream waits for an event of a process that is dead, and so for ever. Blocks while one waits for another
/// that lives.
bool waits_for_the_dead();

}  // namespace rondo::stand_in
