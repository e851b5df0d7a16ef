#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <rondo/port.hpp>

#include "collectives/simulation/event_queue.hpp"
#include "collectives/simulation/loggp.hpp"

namespace rondo::simulation {

class Network;

/// A send on its way: done when its last byte has left.
class Send {
 public:
  Send(Network& network, int rank, Time done) : network_(network), rank_(rank), done_(done) {}
  Send(const Send&) = delete;
  Send& operator=(const Send&) = delete;

  bool await_ready() const noexcept;
  void await_suspend(std::coroutine_handle<> waiter) const;
  void await_resume() const noexcept {}

 private:
  Network& network_;
  int rank_;
  Time done_;
};

/// A posted receive. It is a link in its rank's list until its message has come.
class Receive {
 public:
  Receive(Network& network, int rank, int from, int lane, std::uint64_t bytes, bool reduces);
  Receive(const Receive&) = delete;
  Receive& operator=(const Receive&) = delete;

  bool await_ready() const noexcept { return done_; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  void await_resume() const noexcept {}

 private:
  friend class Network;
  int from_;
  int lane_;
  std::uint64_t bytes_;
  bool reduces_;
  bool done_ = false;
  std::coroutine_handle<> waiter_;
  Receive* next_ = nullptr;
};

/// The ranks, their processors and their ports, and the messages between them. One event for each message: the moment
/// its last byte reaches the receiver, which matches it, charges it to the port and the processor, and goes on with
/// the coroutine that waits for it.
///
/// A rank's own clock may be ahead of the event that it handles: its processor is busy until then.
class Network {
 public:
  Network(int size, const LogGP& model) : model_(model), nodes_(static_cast<std::size_t>(size)) {}

  int size() const noexcept { return static_cast<int>(nodes_.size()); }

  /// What a rank has sent and used, and until when it was busy.
  struct Totals {
    Time time = 0;
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t scratch = 0;
  };
  const Totals& totals(int rank) const { return node(rank).totals; }
  std::uint64_t unmatched() const noexcept { return unmatched_; }

  /// Runs until nothing is under way.
  void run() {
    while (!events_.empty()) {
      const auto [time, event] = events_.pop();
      if (event.message == kNone) {
        Node& mine = node(event.rank);
        mine.clock = std::max(time, mine.processor_free);
        event.waiter.resume();
      } else {
        arrive(time, event.message, event.rank);
      }
    }
  }

  Time send(int from, int to, int lane, std::uint64_t bytes) {
    Node& mine = node(from);
    const Time start = std::max(mine.clock, mine.processor_free);
    mine.clock = mine.processor_free = start + model_.overhead;
    const Time inject = std::max(mine.clock, mine.send_free);
    const Time left = inject + model_.transfer(bytes);
    mine.send_free = left + model_.gap;
    ++mine.totals.messages;
    mine.totals.bytes += bytes;
    mine.totals.time = std::max(mine.totals.time, left);
    const std::uint32_t message = make_message({from, lane, bytes, kNone, false});
    events_.push(left + model_.latency, {{}, message, to});
    return left;
  }

  void receive(int rank, Receive& receive) {
    Node& mine = node(rank);
    for (std::uint32_t* link = &mine.unexpected; *link != kNone; link = &messages_[*link].next) {
      const Message& message = messages_[*link];
      if (message.from != receive.from_ || message.lane != receive.lane_) continue;
      const std::uint32_t matched = *link;
      unlink_message(mine, link);
      finish(mine, mine.clock, receive, matched);
      return;
    }
    ++unmatched_;
    *(mine.posted != nullptr ? &mine.last_posted->next_ : &mine.posted) = &receive;
    mine.last_posted = &receive;
  }

  void reduce(int rank, std::uint64_t bytes) {
    Node& mine = node(rank);
    mine.clock = mine.processor_free = std::max(mine.clock, mine.processor_free) + model_.reduction(bytes);
    mine.totals.time = std::max(mine.totals.time, mine.clock);
  }

  void use_scratch(int rank, std::uint64_t bytes) { node(rank).totals.scratch += bytes; }

  Time clock(int rank) const { return node(rank).clock; }
  void resume_at(Time time, int rank, std::coroutine_handle<> waiter) { events_.push(time, {waiter, kNone, rank}); }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Message {
    int from;
    int lane;
    std::uint64_t bytes;
    std::uint32_t next;
    bool is_in;  ///< past the receiver's port
  };

  struct Event {
    std::coroutine_handle<> waiter;
    std::uint32_t message;
    int rank;
  };

  struct Node {
    Time clock = 0;
    Time processor_free = 0;
    Time send_free = 0;
    Time receive_free = 0;  ///< when the port may take the first byte of the next message
    std::uint32_t unexpected = kNone;
    std::uint32_t last_unexpected = kNone;
    Receive* posted = nullptr;
    Receive* last_posted = nullptr;
    Totals totals;
  };

  Node& node(int rank) { return nodes_[static_cast<std::size_t>(rank)]; }
  const Node& node(int rank) const { return nodes_[static_cast<std::size_t>(rank)]; }

  std::uint32_t make_message(const Message& message) {
    if (free_messages_ == kNone) {
      messages_.push_back(message);
      return static_cast<std::uint32_t>(messages_.size() - 1);
    }
    const std::uint32_t index = free_messages_;
    free_messages_ = messages_[index].next;
    messages_[index] = message;
    return index;
  }

  void unlink_message(Node& mine, std::uint32_t* link) {
    const std::uint32_t index = *link;
    *link = messages_[index].next;
    if (mine.last_unexpected != index) return;
    // The tail went: the link that pointed to it belongs to the new tail, or is the head.
    mine.last_unexpected = kNone;
    for (std::uint32_t rest = mine.unexpected; rest != kNone; rest = messages_[rest].next) mine.last_unexpected = rest;
  }

  void arrive(Time time, std::uint32_t index, int rank) {
    Node& mine = node(rank);
    Message& message = messages_[index];
    // The port takes one message after the other; one that comes too early is looked at again when it is in.
    if (!message.is_in) {
      message.is_in = true;
      const Time in = std::max(time, mine.receive_free + model_.transfer(message.bytes));
      mine.receive_free = in + model_.gap;
      if (in > time) {
        events_.push(in, {{}, index, rank});
        return;
      }
    }
    Receive* before = nullptr;
    for (Receive* posted = mine.posted; posted != nullptr; before = posted, posted = posted->next_) {
      if (posted->from_ != message.from || posted->lane_ != message.lane) continue;
      (before != nullptr ? before->next_ : mine.posted) = posted->next_;
      if (mine.last_posted == posted) mine.last_posted = before;
      --unmatched_;
      finish(mine, time, *posted, index);
      if (posted->waiter_) posted->waiter_.resume();
      return;
    }
    messages_[index].next = kNone;
    (mine.unexpected != kNone ? messages_[mine.last_unexpected].next : mine.unexpected) = index;
    mine.last_unexpected = index;
  }

  /// The processor takes a matched message.
  void finish(Node& mine, Time time, Receive& receive, std::uint32_t index) {
    const Time reduction = receive.reduces_ ? model_.reduction(receive.bytes_) : 0;
    mine.processor_free = std::max(time, mine.processor_free) + model_.overhead + reduction;
    mine.clock = mine.processor_free;
    mine.totals.time = std::max(mine.totals.time, mine.clock);
    receive.done_ = true;
    messages_[index].next = free_messages_;
    free_messages_ = index;
  }

  LogGP model_;
  std::vector<Node> nodes_;
  std::vector<Message> messages_;
  std::uint32_t free_messages_ = kNone;
  std::uint64_t unmatched_ = 0;
  EventQueue<Event> events_;
};

inline bool Send::await_ready() const noexcept { return done_ <= network_.clock(rank_); }
inline void Send::await_suspend(std::coroutine_handle<> waiter) const { network_.resume_at(done_, rank_, waiter); }

inline Receive::Receive(Network& network, int rank, int from, int lane, std::uint64_t bytes, bool reduces)
    : from_(from), lane_(lane), bytes_(bytes), reduces_(reduces), done_(bytes == 0) {
  if (!done_) network.receive(rank, *this);
}

}  // namespace rondo::simulation
