#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda/context.hpp"

namespace rondo::cuda {

/// One use of one event of a pool, as it travels in frames. 8 bytes.
struct EventTicket {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;  ///< counts the uses of this event, so that an answer to an earlier one is found out

  friend bool operator==(const EventTicket&, const EventTicket&) = default;
};

/// Where there is none.
constexpr EventTicket kNoEvent{~std::uint32_t{0}, 0};

/// Events of this process that others wait for: as many as it is made with, never one for each message, for the driver
/// has few. They are exported once, when a connection is made.
///
/// The rule that all order between processes rests on: the record is enqueued first, then the ticket is sent, then
/// the other side enqueues its wait, or has its host ask; and the ticket is given back, so that the event may be
/// recorded again, only when the other side has said that it has enqueued it, or needs it no more. So what is queued on
/// devices always drains by itself.
///
/// Belongs to one thread at a time. The context outlives it; the events others have opened must be closed before.
class EventPool {
 public:
  EventPool(const PrimaryContext& context, std::size_t size);
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// What `ImportedEvents` of other processes is made with; the place is the ticket's index.
  std::span<const IpcEventHandle> handles() const noexcept { return handles_; }
  /// Those that nobody uses. One that was given up may not be recorded yet all the same: see `can_record`.
  std::size_t available() const noexcept { return free_.size(); }

  /// An event that is recorded on the stream after all that was queued there, for so many others to wait for. Nothing:
  /// all are in use, or given up and not done; ask again later. Throws CudaError; the event is then free again. `owner`
  /// is whoever may have to give it up.
  std::optional<EventTicket> record(StreamHandle stream, int users = 1, std::uint64_t owner = 0);
  /// Whether there would be one. Throws CudaError.
  bool can_record() const;
  /// One of them will not enqueue a wait for this use any more. False: there is no such use (the peer's answer is
  /// wrong).
  [[nodiscard]] bool give_back(EventTicket ticket) noexcept;
  /// The owner has failed, and what others do not say any more need not be waited for: all its events are free. Some
  /// may still trust their tickets. So none is recorded anew before its last record is done: whoever is told "done" is
  /// told the truth. A wait that is enqueued for one may be for a later record, which was enqueued before it, too.
  void give_up(std::uint64_t owner) noexcept;

 private:
  struct Slot {
    EventHandle event = nullptr;
    std::uint32_t generation = 0;
    int users = 0;
    std::uint64_t owner = 0;
    bool given_up = false;  ///< once: an answer to an earlier use may still come
    bool trusted = false;   ///< its last use was given up: others may still ask whether that is done
  };

  /// The one to be recorded next; the end: there is none. A context is current. Throws CudaError.
  std::vector<std::uint32_t>::const_iterator next() const;
  bool is_done(const Slot& slot) const;
  void destroy() noexcept;

  const PrimaryContext& context_;
  std::vector<Slot> slots_;
  std::vector<IpcEventHandle> handles_;
  std::vector<std::uint32_t> free_;
};

/// The events of one other process. Belongs to one thread at a time; the context outlives it.
class ImportedEvents {
 public:
  /// Opens them all. Throws CudaError, naming the peer.
  ImportedEvents(const PrimaryContext& context, std::span<const IpcEventHandle> handles, int peer);
  ~ImportedEvents();
  ImportedEvents(const ImportedEvents&) = delete;
  ImportedEvents& operator=(const ImportedEvents&) = delete;

  std::size_t size() const noexcept { return events_.size(); }
  /// What is queued on the stream from here on comes after the record that the ticket speaks of. `peer` is for errors.
  void wait(EventTicket ticket, StreamHandle stream, int peer = -1) const;
  /// Whether that record is done; the host asks, no stream waits.
  bool done(EventTicket ticket, int peer = -1) const;

 private:
  EventHandle event(EventTicket ticket) const;
  void destroy() noexcept;

  const PrimaryContext& context_;
  std::vector<EventHandle> events_;
};

}  // namespace rondo::cuda
