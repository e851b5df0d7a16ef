#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "transport/descriptor.hpp"
#include "transport/frame.hpp"

namespace rondo::detail {

/// One frame on its way out. Owned by the sender, borrowed by the link from `send` until `on_sent` or `release`.
struct Outgoing {
  FrameHeader header;
  std::span<const std::byte> payload;
  /// The link needs the payload no more. Called from `send` or `poll` of the link; must not call the link.
  void (*on_sent)(Outgoing&) noexcept = nullptr;

  Outgoing* next = nullptr;  ///< the link's: the frame behind this one
  std::size_t written = 0;   ///< the link's: bytes of header and payload already handed over
};

/// Where arriving frames go. Called from `Link::poll`; must not destroy the link.
class Sink {
 public:
  virtual ~Sink() = default;

  /// A frame whose whole payload is in the link's memory. `payload` is valid during the call: copy or reduce out of it.
  virtual void deliver(const FrameHeader& header, std::span<const std::byte> payload) = 0;

  /// A frame like this would find the place that it was meant for. If not, it may be better off a poll later.
  virtual bool expects(const FrameHeader&) const { return true; }

  /// A frame whose payload is still to come: the place for its `header.bytes`, or nullptr to have it thrown away.
  /// The place belongs to the link until `arrived`, or until `Link::discard`.
  virtual std::byte* accept(const FrameHeader& header) = 0;

  /// The payload of the accepted frame is complete.
  virtual void arrived(const FrameHeader& header) = 0;

  /// The other side has passed a descriptor, under a number that means something to both.
  virtual void passed(Descriptor, std::uint64_t) {}

  /// The link is dead: nothing was lost before `cause`, nothing comes after it. Called once.
  virtual void closed(const std::string& cause) = 0;
};

/// One ordered, reliable stream of frames to one peer.
///
/// Thread: all calls come from whoever holds the engine's baton; a link has no lock and no thread of its own.
/// Order: frames arrive in the order of `send`.
/// Failure: `poll` reports it once through `Sink::closed`; from then on `send` swallows frames without `on_sent`.
class Link {
 public:
  virtual ~Link() = default;

  /// Hands over what can be handed over now and queues the rest. `on_sent` may run before `send` returns.
  virtual void send(Outgoing& frame) = 0;

  /// Hands over a whole eager message at once. False: something stands in its way, or this link does not do that;
  /// nothing has happened, and it is to be sent as a frame.
  virtual bool send_now(EagerHeader, std::span<const std::byte>) { return false; }

  /// The next frame that has come, if it is whole and may be an eager message, looked for so often: its payload lies in
  /// the link's memory until `take_arrived`. Nothing: there is none, or this link does not do that.
  struct Arrived {
    EagerHeader header;
    std::span<const std::byte> payload;
  };
  virtual std::optional<Arrived> arrived([[maybe_unused]] int looks) { return std::nullopt; }
  virtual void take_arrived() {}

  /// A payload has been asked for and is on its way, or none is any more: what is sent meanwhile leaves it its turns.
  virtual void await_payload(bool) noexcept {}

  /// Takes the payload back before `on_sent`. A frame of which a part is already on the wire is completed from a
  /// copy, so that the stream stays whole; one that has not begun is dropped.
  virtual void release(Outgoing& frame) = 0;

  /// The place named by the last `accept` is gone: throw the rest of that payload away. `arrived` is still called.
  virtual void discard() = 0;

  /// Moves what can move without blocking; returns the number of frames and pieces of payload that moved.
  virtual std::size_t poll(Sink& sink) = 0;

  /// A poll is a system call, even when nothing has come.
  virtual bool polls_system() const noexcept { return false; }

  /// True when every frame has been handed over to the system.
  virtual bool flushed() const = 0;

  /// Ends the outgoing stream after what was handed over; the other side reads everything and then sees the end.
  virtual void shut_down() noexcept = 0;

  /// True when the other side's system has everything that was handed over (or the link is dead).
  virtual bool drained() const = 0;

  /// The descriptor to block on, and whether it must become writable (readable always); -1: there is none.
  virtual int descriptor() const = 0;
  virtual bool wants_write() const = 0;

  /// Nobody may look for long: tells the other side what it has been spared so far.
  virtual void settle() noexcept {}

  /// The thread is about to block (or is back): the other side must make `descriptor()` readable when it moves
  /// something. True: it may do so without a system call of ours, and sees what `Resting` orders.
  virtual bool rest(bool) noexcept { return false; }

  /// Wakes the other side if it rests. (`send` does that by itself.)
  virtual void ring() noexcept {}

  /// Looks at what `poll` leaves out because it costs a system call: whether the other side is still there, descriptors
  /// that it passed. Called before and after each sleep and now and then; returns how much it found. A bell counts:
  /// whoever rang it takes this side for awake from then on.
  virtual std::size_t check(Sink&) { return 0; }

  /// Gives the other side a descriptor of its own, out of the order of the frames. False: it cannot be done here.
  virtual bool pass(int, std::uint64_t) { return false; }

  /// Messages longer than this are better fetched by the receiver with `pull` than sent; 0: it cannot be done here.
  virtual std::size_t pull_from() const noexcept { return 0; }
  /// It was tried when the connection was made, and found to be no way: forbidden, or slower than to send.
  virtual bool pull_ruled_out() const noexcept { return false; }
  /// What a message that may be fetched tells beside its address. Nothing: nobody would hear of it if it were voided,
  /// so that none of the host's memory may be fetched.
  virtual std::optional<std::uint64_t> pull_ticket() const noexcept { return std::nullopt; }
  /// Before memory that was offered is given back without having been fetched: no ticket from before is good any more.
  virtual void void_tickets() noexcept {}
  /// Whether no ticket of the other side's has been voided since this one: what was read till now was what it offered.
  virtual bool good(std::uint64_t) const noexcept { return true; }
  /// Copies from the other side's memory, which may have a hand in it if `jointly`. `no`: it cannot be done.
  enum class Pulled : std::uint8_t { no, yes, not_yet };
  virtual Pulled pull(std::uint64_t, std::span<std::byte>, bool) { return Pulled::no; }
  /// After `not_yet`: how it stands. Until it is known, what the bytes were copied to must stay.
  virtual Pulled pulled() { return Pulled::no; }
  /// After `not_yet`: that place is gone. Waits for what the other side is writing there.
  virtual void give_up_pull() noexcept {}

  /// "tcp", "unix", "shm", "loopback": for logs and the benchmark.
  virtual std::string_view transport() const = 0;
  /// "by process_vm_readv", "through the ring: ..." and why; nothing where there is but one way.
  virtual std::string long_messages() const { return {}; }
};

/// First in, first out, linked through the frames themselves.
class FrameQueue {
 public:
  bool empty() const noexcept { return head_ == nullptr; }
  Outgoing* head() const noexcept { return head_; }
  void push(Outgoing& frame) noexcept {
    frame.next = nullptr;
    (tail_ ? tail_->next : head_) = &frame;
    tail_ = &frame;
  }
  Outgoing& pop() noexcept {
    Outgoing& frame = *head_;
    head_ = frame.next;
    if (!head_) tail_ = nullptr;
    return frame;
  }
  /// Puts `replacement` where `frame` is; nullptr takes `frame` out. False: `frame` is not in the queue.
  bool replace(Outgoing& frame, Outgoing* replacement) noexcept;

 private:
  Outgoing* head_ = nullptr;
  Outgoing* tail_ = nullptr;
};

inline bool FrameQueue::replace(Outgoing& frame, Outgoing* replacement) noexcept {
  Outgoing* before = nullptr;
  for (Outgoing* at = head_; at; before = at, at = at->next) {
    if (at != &frame) continue;
    Outgoing* const follower = frame.next;
    Outgoing* const link = replacement ? replacement : follower;
    if (replacement) replacement->next = follower;
    (before ? before->next : head_) = link;
    if (tail_ == &frame) tail_ = replacement ? replacement : before;
    return true;
  }
  return false;
}

}  // namespace rondo::detail
