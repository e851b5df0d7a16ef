#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "cuda/context.hpp"

namespace rondo::cuda {

/// Queues a copy from memory of the host, from where it is pinned by an engine that copies whatever its length: a
/// driver leaves short ones to the engine that computes, which the processes that share a device have in turns (an H200
/// changes between them in 145 us), but for those of rows. Throws CudaError with these facts. A context is current.
void queue_from_host(const Driver& driver, const CudaFacts& facts, Address to, const void* from, std::size_t bytes,
                     StreamHandle stream);

/// Events of this process alone, for order between streams. Belongs to one thread at a time; the context outlives it.
class LocalEvents {
 public:
  explicit LocalEvents(const PrimaryContext& context) : context_(context) {}
  ~LocalEvents();
  LocalEvents(const LocalEvents&) = delete;
  LocalEvents& operator=(const LocalEvents&) = delete;

  /// Recorded on the stream after all that was queued there. Throws CudaError. A context is current.
  EventHandle record(StreamHandle stream);
  /// The same; nullptr, which is done, where nothing is left of that.
  EventHandle record_unless_at_rest(StreamHandle stream);
  /// Whether what was queued before is done. Throws CudaError with these facts.
  bool done(EventHandle event, const CudaFacts& facts = {}) const;
  void give_back(EventHandle event) {
    if (event != nullptr) free_.push_back(event);
  }

 private:
  const PrimaryContext& context_;
  std::vector<EventHandle> free_;
  std::vector<EventHandle> all_;
};

/// Copies on streams of rondo's own, and whatever else its user queues on the first. Nobody blocks for them: `poll`
/// asks the device, and tells whoever started one. Belongs to one thread at a time; the context and the events outlive
/// it.
class Copies {
 public:
  struct Copy {
    // One of each pair, or nothing at all.
    Address to = 0;
    void* to_host = nullptr;
    Address from = 0;
    const void* from_host = nullptr;

    std::size_t bytes = 0;
    int peer = -1;  ///< for errors
    /// Asked by `start`, and by `poll` until it is true: then the copy is queued. Empty: at once. May throw CudaError.
    std::function<bool()> ready;
    /// What the device can do in its place: has a stream wait for the same. False: it cannot now. Empty: never. May
    /// throw CudaError.
    std::function<bool(StreamHandle)> follow;
    /// Nobody wants it any more: it is not queued if that has not happened yet.
    std::function<bool()> given_up;
    /// Called once, when the copy is over or was not made. Whatever it holds is held until then, and where the driver
    /// fails for as long as the device might use it.
    std::function<void(std::exception_ptr)> ended;
  };

  Copies(const PrimaryContext& context, LocalEvents& events) : context_(context), events_(events), stream_(context) {}
  ~Copies() { (void)stop(); }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  class Running;
  /// Nothing is called back before `poll`.
  std::shared_ptr<Running> start(Copy copy);
  /// It is queued, or over.
  static bool has_begun(const Running& running) noexcept;

  /// For what its user queues there, up to the next mark. Throws CudaError.
  StreamHandle stream();
  /// Marks how far its user has queued on the stream: `reached` is called when the device has come there. Throws
  /// CudaError; then it is not called, and what it holds is held all the same until the device is done.
  std::shared_ptr<Running> mark(std::function<void(std::exception_ptr)> reached);

  /// Queues a copy that is not ready behind what it waits for, on a stream that it has for itself. Where there is
  /// nothing to copy its end comes with the next `poll`. False: it is not queued, or has failed. Throws CudaError where
  /// it cannot wait; it is asked about as before then.
  bool hasten(Running& running);
  /// Where a copy is queued.
  StreamHandle stream_of(const Running& running) const noexcept;
  /// Hastens the copy; what is queued on the stream from here on comes after it. False: it is not queued, or has
  /// failed.
  bool order(Running& running, StreamHandle stream);

  /// Returns how many were queued or have ended. Throws nothing: what fails is told, of what is queued already once the
  /// device has come to the end of the stream, or has had `kPatience` for that.
  std::size_t poll();
  bool idle() const noexcept { return running_.empty() && left_.empty(); }
  /// The device has nothing left to do on the streams, whatever is yet to be queued there.
  bool drained() const noexcept;
  /// No copy waits on the device for anything but those ahead of it.
  bool lanes_drained() const noexcept;
  /// Enough for a device that waits for nobody.
  static constexpr std::chrono::seconds kPatience{2};
  /// Copies that the device waits for at a time; more have to be ready. Few: a context has 8 connections to the device,
  /// where CUDA_DEVICE_MAX_CONNECTIONS does not say otherwise, and what shares one with a stream that waits may wait
  /// too.
  static constexpr std::size_t kMostLanes = 4;
  /// Waits for what has been queued, for so long at the most, and tells nobody. False: the device has not come to it,
  /// as something there waits for a process that has died; then whatever was given here must stay as it is.
  [[nodiscard]] bool stop(std::chrono::nanoseconds patience = kPatience) noexcept;

 private:
  /// Whether anything changed; `over` when it need not be looked at again.
  bool advance(Running& running, bool& over);
  void queue(Running& running);
  /// Something else is about to be queued on the stream.
  void settle();
  /// An event says from here on when that is over, whatever comes after it. A context is current.
  void mark_end(Running& running);
  void fail(Running& running) noexcept;
  /// A stream with nothing on it, for one copy; nullptr: there are enough.
  std::shared_ptr<Stream> free_lane();
  void forget_left() noexcept;
  static bool is_drained(const Stream& stream) noexcept;
  const Stream& lane_of(const Running& running) const noexcept;

  const PrimaryContext& context_;
  LocalEvents& events_;
  Stream stream_;
  bool marked_ = true;             ///< behind all that its user has queued
  std::shared_ptr<Running> last_;  ///< on the stream, without an event: an event takes the host longer than to ask
  std::vector<std::shared_ptr<Stream>> lanes_;
  std::list<std::shared_ptr<Running>> running_;
  std::list<std::shared_ptr<Running>> left_;  ///< that have failed, and may be moving still
};

}  // namespace rondo::cuda
