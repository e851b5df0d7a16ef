#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <rondo/plan.hpp>
#include <rondo/port.hpp>
#include <rondo/task.hpp>

namespace rondo::test {

/// An element that knows where it comes from: its index in the vector, and a letter for every rank whose input went
/// into it, in the order of the operands (concatenation is the operator that commutes least). `finish` adds a '!'.
struct Provenance {
  std::uint32_t index = 0;
  std::string ranks = "?";  ///< '?': never written
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

class MemoryNetwork;

/// A message on its way, at one end: what the algorithms await.
class MemoryMessage {
 public:
  struct Facts {
    int rank;
    int peer;
    int lane;
    Range read{};     ///< of a send what goes out, of a recv_reduce the own operand
    Range written{};  ///< of a receive
    bool sends = false;
    bool reduces = false;
    Side side = Side::left;
  };

  MemoryMessage(MemoryNetwork& network, const Facts& facts);
  MemoryMessage(const MemoryMessage&) = delete;
  MemoryMessage& operator=(const MemoryMessage&) = delete;
  ~MemoryMessage();

  bool await_ready() const noexcept { return done_; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  void await_resume() const {
    if (failed_) throw std::runtime_error("the network failed");
  }

 private:
  friend class MemoryNetwork;
  MemoryNetwork& network_;
  Facts facts_;
  bool done_ = false;
  bool failed_ = false;
  std::coroutine_handle<> waiter_;
};

/// One rank's end of the network.
class MemoryPort {
 public:
  MemoryPort(MemoryNetwork& network, int rank, int lane) : network_(&network), rank_(rank), lane_(lane) {}

  int rank() const { return rank_; }
  int size() const;
  bool in_place() const;
  Range scratch(std::size_t count);
  MemoryMessage send(const Range& range, int to);
  MemoryMessage recv(const Range& range, int from);
  MemoryMessage recv_reduce(const Range& own, const Range& into, int from, Side side);
  void copy(const Range& from, const Range& to);
  void keep(const Range& from, const Range& to, std::size_t) { copy(from, to); }
  void reduce(const Range& own, const Range& other, const Range& into, Side side);
  void finish(const Range& range);
  MemoryPort lane(int index) const { return {*network_, rank_, index}; }
  void lane_failed(const std::exception_ptr&) {}

 private:
  MemoryNetwork* network_;
  int rank_;
  int lane_;
};

/// All ranks of a collective in one thread, with real data. Everything that may happen next (a delivery, a send that
/// completes, a rank that goes on) happens in an order drawn from the seed. Every access is checked: bounds, reading
/// what is being received, writing what is being sent.
class MemoryNetwork {
 public:
  struct Memory {
    std::vector<Provenance> input;
    std::vector<Provenance> output;  ///< unused in place
    std::vector<Provenance> scratch;
  };

  MemoryNetwork(int size, bool in_place, std::uint64_t seed)
      : memories_(static_cast<std::size_t>(size)),
        active_(static_cast<std::size_t>(size)),
        in_place_(in_place),
        random_(seed) {}

  Memory& memory(int rank) { return memories_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(memories_.size()); }
  bool in_place() const { return in_place_; }

  /// The network breaks after that many deliveries.
  void fail_after(std::size_t deliveries) { deliveries_left_ = deliveries; }

  /// Lets things happen until nothing can any more. Throws std::logic_error when a rank broke the rules.
  void run(std::vector<Task>& tasks) {
    std::vector<Task*> starting;
    for (Task& task : tasks) starting.push_back(&task);
    for (;;) {
      const std::size_t choices = starting.size() + runnable_.size() + flushing_.size() + ready_.size();
      if (choices == 0) break;
      std::size_t pick = random_() % choices;
      if (pick < starting.size()) {
        take(starting, pick)->start();
      } else if ((pick -= starting.size()) < runnable_.size()) {
        take(runnable_, pick).resume();
      } else if ((pick -= runnable_.size()) < flushing_.size()) {
        complete(*take(flushing_, pick));
      } else {
        deliver(take(ready_, pick - flushing_.size()));
      }
      if (!violation_.empty()) throw std::logic_error(violation_);
    }
  }

  std::size_t pending() const {
    std::size_t count = 0;
    for (const auto& [key, channel] : channels_) count += channel.sent.size() + channel.posted.size();
    return count;
  }

 private:
  friend class MemoryPort;
  friend class MemoryMessage;

  using Key = std::tuple<int, int, int>;  ///< from, to, lane
  struct Sent {
    std::vector<Provenance> data;
    MemoryMessage* sender;  ///< null: it went on without waiting for the delivery
  };
  struct Channel {
    std::deque<Sent> sent;
    std::deque<MemoryMessage*> posted;
  };

  template <typename T>
  T take(std::vector<T>& from, std::size_t index) {
    T taken = from[index];
    from[index] = from.back();
    from.pop_back();
    return taken;
  }

  std::vector<Provenance>& elements(int rank, Buffer buffer) {
    Memory& mine = memory(rank);
    if (buffer == Buffer::scratch) return mine.scratch;
    return buffer == Buffer::input || in_place_ ? mine.input : mine.output;
  }

  Provenance& at(int rank, const Range& range, std::size_t index) {
    return elements(rank, range.buffer)[range.begin + index];
  }

  std::vector<Provenance> snapshot(int rank, const Range& range) {
    const auto first = elements(rank, range.buffer).begin() + static_cast<std::ptrdiff_t>(range.begin);
    return {first, first + static_cast<std::ptrdiff_t>(range.count)};
  }

  bool overlap(const Range& a, const Range& b) const {
    const auto memory_of = [this](Buffer buffer) {
      return in_place_ && buffer == Buffer::input ? Buffer::output : buffer;
    };
    return a.count > 0 && b.count > 0 && memory_of(a.buffer) == memory_of(b.buffer) && a.begin < b.begin + b.count &&
           b.begin < a.begin + a.count;
  }

  void check(int rank, const Range& read, const Range& written) {
    for (const Range& range : {read, written}) {
      if (range.begin + range.count > elements(rank, range.buffer).size())
        throw std::logic_error("rank " + std::to_string(rank) + " leaves its buffer");
    }
    for (const MemoryMessage* other : active_[static_cast<std::size_t>(rank)]) {
      if (overlap(written, other->facts_.read) || overlap(written, other->facts_.written) ||
          overlap(read, other->facts_.written))
        throw std::logic_error("rank " + std::to_string(rank) + " uses a range that is in flight");
    }
  }

  /// Puts a new message under way, or completes it when it is empty.
  void start(MemoryMessage& message) {
    if (!activate(message)) return;
    if (message.facts_.sends) {
      start_send(message);
    } else {
      start_recv(message);
    }
  }

  bool activate(MemoryMessage& message) {
    if (down_) message.failed_ = message.done_ = true;
    if (message.facts_.read.count + message.facts_.written.count == 0) message.done_ = true;
    if (message.done_) return false;
    check(message.facts_.rank, message.facts_.read, message.facts_.written);
    active_[static_cast<std::size_t>(message.facts_.rank)].push_back(&message);
    return true;
  }

  void start_send(MemoryMessage& message) {
    const Key key{message.facts_.rank, message.facts_.peer, message.facts_.lane};
    Channel& channel = channels_[key];
    const bool is_eager = random_() % 2 == 0;
    channel.sent.push_back({snapshot(message.facts_.rank, message.facts_.read), is_eager ? nullptr : &message});
    if (is_eager) flushing_.push_back(&message);
    if (channel.sent.size() <= channel.posted.size()) ready_.push_back(key);
  }

  void start_recv(MemoryMessage& message) {
    const Key key{message.facts_.peer, message.facts_.rank, message.facts_.lane};
    Channel& channel = channels_[key];
    channel.posted.push_back(&message);
    if (channel.posted.size() <= channel.sent.size()) ready_.push_back(key);
    const bool keeps = message.facts_.reduces && overlap(message.facts_.read, message.facts_.written);
    for (std::size_t i = 0; i < message.facts_.written.count && !keeps; ++i)
      at(message.facts_.rank, message.facts_.written, i) = {};
  }

  void combine(int rank, const Range& own, const Range& into, std::size_t index, const Provenance& other, Side side) {
    const Provenance mine = at(rank, own, index);
    if (mine.index != other.index) violation_ = "combines element " + std::to_string(mine.index) + " with another";
    if (mine.ranks.find_first_of("?!") != std::string::npos || other.ranks.find_first_of("?!") != std::string::npos)
      violation_ = "combines what is unset or finished";
    at(rank, into, index) = {mine.index, side == Side::left ? other.ranks + mine.ranks : mine.ranks + other.ranks};
  }

  void deliver(const Key& key) {
    if (deliveries_left_ == 0) return fail();
    --deliveries_left_;
    Channel& channel = channels_[key];
    const Sent sent = std::move(channel.sent.front());
    channel.sent.pop_front();
    MemoryMessage& receiver = *channel.posted.front();
    channel.posted.pop_front();
    if (sent.data.size() != receiver.facts_.written.count) {
      violation_ = "rank " + std::to_string(receiver.facts_.rank) + " gets " + std::to_string(sent.data.size()) +
                   " elements and wanted " + std::to_string(receiver.facts_.written.count);
      return;
    }
    for (std::size_t i = 0; i < sent.data.size(); ++i) {
      if (receiver.facts_.reduces) {
        combine(receiver.facts_.rank, receiver.facts_.read, receiver.facts_.written, i, sent.data[i],
                receiver.facts_.side);
      } else {
        at(receiver.facts_.rank, receiver.facts_.written, i) = sent.data[i];
      }
    }
    complete(receiver);
    if (sent.sender != nullptr) complete(*sent.sender);
  }

  void complete(MemoryMessage& message) {
    message.done_ = true;
    std::erase(active_[static_cast<std::size_t>(message.facts_.rank)], &message);
    if (message.waiter_) runnable_.push_back(message.waiter_);
  }

  void fail() {
    down_ = true;
    channels_.clear();
    ready_.clear();
    flushing_.clear();
    for (auto& messages : active_) {
      for (MemoryMessage* message : messages) {
        message->failed_ = message->done_ = true;
        if (message->waiter_) runnable_.push_back(message->waiter_);
      }
      messages.clear();
    }
  }

  void withdraw(const MemoryMessage& message) {
    violation_ = "rank " + std::to_string(message.facts_.rank) + " drops a message that is under way";
    std::erase(active_[static_cast<std::size_t>(message.facts_.rank)], &message);
  }

  std::vector<Memory> memories_;
  std::vector<std::vector<MemoryMessage*>> active_;
  bool in_place_;
  bool down_ = false;
  std::size_t deliveries_left_ = static_cast<std::size_t>(-1);
  std::mt19937_64 random_;
  std::map<Key, Channel> channels_;
  std::vector<Key> ready_;  ///< once for each pair of a sent message and its posted receive
  std::vector<MemoryMessage*> flushing_;
  std::vector<std::coroutine_handle<>> runnable_;
  std::string violation_;
};

inline MemoryMessage::MemoryMessage(MemoryNetwork& network, const Facts& facts) : network_(network), facts_(facts) {
  network_.start(*this);
}

inline MemoryMessage::~MemoryMessage() {
  if (!done_) network_.withdraw(*this);
}

inline int MemoryPort::size() const { return network_->size(); }
inline bool MemoryPort::in_place() const { return network_->in_place(); }

inline Range MemoryPort::scratch(std::size_t count) {
  auto& scratch = network_->memory(rank_).scratch;
  const Range range{Buffer::scratch, scratch.size(), count};
  scratch.resize(scratch.size() + count);
  return range;
}

inline MemoryMessage MemoryPort::send(const Range& range, int to) {
  return {*network_, {.rank = rank_, .peer = to, .lane = lane_, .read = range, .sends = true}};
}

inline MemoryMessage MemoryPort::recv(const Range& range, int from) {
  return {*network_, {.rank = rank_, .peer = from, .lane = lane_, .written = range}};
}

inline MemoryMessage MemoryPort::recv_reduce(const Range& own, const Range& into, int from, Side side) {
  if (own.count != into.count) throw std::logic_error("recv_reduce of ranges that differ in length");
  return {*network_,
          {.rank = rank_, .peer = from, .lane = lane_, .read = own, .written = into, .reduces = true, .side = side}};
}

inline void MemoryPort::copy(const Range& from, const Range& to) {
  if (from.count != to.count) throw std::logic_error("copy of ranges that differ in length");
  network_->check(rank_, from, to);
  for (std::size_t i = 0; i < from.count; ++i) network_->at(rank_, to, i) = network_->at(rank_, from, i);
}

inline void MemoryPort::reduce(const Range& own, const Range& other, const Range& into, Side side) {
  if (own.count != into.count || other.count != into.count) throw std::logic_error("reduce of different lengths");
  network_->check(rank_, own, into);
  network_->check(rank_, other, into);
  for (std::size_t i = 0; i < own.count; ++i)
    network_->combine(rank_, own, into, i, network_->at(rank_, other, i), side);
}

inline void MemoryPort::finish(const Range& range) {
  network_->check(rank_, {}, range);
  for (std::size_t i = 0; i < range.count; ++i) network_->at(rank_, range, i).ranks += '!';
}

}  // namespace rondo::test
