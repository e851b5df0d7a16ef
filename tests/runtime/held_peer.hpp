#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/engine.hpp"
#include "runtime/message.hpp"
#include "tests/support/still.hpp"

// A peer that is fed frames one at a time, and what it sends.

namespace rondo::testing {

using namespace rondo::detail;

/// Keeps what is sent until `flow`.
class HeldLink final : public Link {
 public:
  void send(Outgoing& frame) override {
    frame.written = 0;
    queue_.push(frame);
    if (flowing_) flow();
  }
  void flow() {
    flowing_ = true;
    while (!queue_.empty()) {
      Outgoing& frame = queue_.pop();
      sent.push_back(frame.header);
      frame.on_sent(frame);
    }
  }
  void hold() { flowing_ = false; }
  void release(Outgoing& frame) override { queue_.replace(frame, nullptr); }
  void await_payload(bool awaited) noexcept override { awaits_payload = awaited; }
  void discard() override { discarded = true; }
  std::optional<std::uint64_t> pull_ticket() const noexcept override { return ticket; }
  bool good(std::uint64_t told) const noexcept override { return told == ticket; }
  bool pass(int, std::uint64_t) override { return passes; }
  Pulled pull(std::uint64_t, std::span<std::byte>, bool jointly) override {
    pulled_jointly = jointly;
    return pulls;
  }
  Pulled pulled() override { return pulls; }
  void give_up_pull() noexcept override { gave_up = true; }
  std::size_t poll(Sink&) override {
    if (on_poll) on_poll();
    return moves;
  }
  bool rest(bool) noexcept override { return shares_memory; }
  std::size_t check(Sink&) override {
    ++checks;
    return 0;
  }
  void settle() noexcept override { ++settled; }
  bool polls_system() const noexcept override { return is_system; }
  bool flushed() const override { return queue_.empty(); }
  void shut_down() noexcept override {}
  bool drained() const override { return true; }
  int descriptor() const override { return file; }
  bool wants_write() const override { return false; }
  std::string_view transport() const override { return "held"; }

  std::vector<FrameHeader> sent;
  bool discarded = false;
  bool awaits_payload = false;
  std::uint64_t ticket = 5;
  Pulled pulls = Pulled::no;
  std::optional<bool> pulled_jointly;
  bool gave_up = false;
  bool passes = false;
  std::function<void()> on_poll;
  std::size_t moves = 0;  ///< what a poll returns
  int settled = 0;
  int checks = 0;
  int file = -1;
  bool shares_memory = false;
  bool is_system = false;

 private:
  FrameQueue queue_;
  bool flowing_ = true;
};

using Four = std::array<std::byte, 4>;

inline Four four(int value) {
  Four bytes{};
  bytes.fill(static_cast<std::byte>(value));
  return bytes;
}

/// Rank 0 of two, and what it hears of rank 1.
struct Pair {
  explicit Pair(const Engine::Settings& wanted = settings())
      : engine(wanted, clock, waiter, Log()), peer(engine.peer(1)) {
    auto made = std::make_unique<HeldLink>();
    link = made.get();
    peer.attach(std::move(made));
    group = &engine.make_group(kGroup, {0, 1});
  }

  static Engine::Settings settings() {
    Engine::Settings settings;
    settings.size = 3;
    settings.eager_limit = 64;
    return settings;
  }
  static FrameHeader header(FrameKind kind, std::uint32_t id, std::uint64_t communicator = kGroup) {
    FrameHeader header;
    header.kind = kind;
    header.id = id;
    header.communicator = communicator;
    header.tag = 3;
    header.bytes = sizeof(Four);
    return header;
  }
  void announce(std::uint32_t id, std::uint64_t communicator = kGroup) {
    peer.deliver(header(FrameKind::announce, id, communicator), {});
  }
  void late(std::uint32_t id, const Four& payload) { peer.deliver(header(FrameKind::late, id), payload); }
  void recall(std::uint32_t id) { peer.deliver(header(FrameKind::recall, id), {}); }
  void eager(const Four& payload) { peer.deliver(header(FrameKind::eager, 0), payload); }
  /// Destroys the communicator, where asked as an exception does that unwinds its owner.
  void close(bool unwinding) {
    struct Owner {
      Pair& pair;
      ~Owner() { pair.engine.close_group(*pair.group); }
    };
    try {
      const Owner owner{*this};
      if (unwinding) throw std::exception();
    } catch (const std::exception&) {
      // As the caller does.
    }
  }
  /// What rank 1 was promised memory for is free again, of so many messages.
  bool free_again(std::uint64_t messages) const {
    return peer.untold() == messages * (sizeof(Four) + Peer::kFrameCost);
  }

  static constexpr std::uint64_t kGroup = 7;
  SetClock clock;
  NoWaiter waiter;
  Engine engine;
  Peer& peer;
  HeldLink* link = nullptr;
  Group* group = nullptr;
};

struct Receive {
  explicit Receive(Group& group) : message(group, 1, Tag{3}, ElementType::bytes, place) {}
  std::string error() const {
    try {
      if (message.error()) std::rethrow_exception(message.error());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  Four place{};
  ReceiveMessage message;
};

/// A collective that receives one message, which it combines.
struct Combining final : Operation {
  Combining(Group& group, std::span<std::byte> into, int& times)
      : Operation(group, Call{}, std::nullopt), fold{into, combine, &times} {}
  static void combine(void* times, std::byte*, const std::byte*, std::size_t) { ++*static_cast<int*>(times); }
  Task body() override {
    ReceiveMessage message(*this, 1, 0, fold);
    co_await message;
  }
  /// Rank 1 offers the message. Returns the number under which it is asked for the payload.
  std::uint32_t begin(Pair& pair) {
    start();
    FrameHeader rts = Pair::header(FrameKind::rts, 1);
    rts.bytes = fold.into.size();
    stamp(rts);
    rts.tag = 0;
    pair.peer.deliver(rts, {});
    return pair.link->sent.empty() ? 0 : pair.link->sent.back().number;
  }
  Fold fold;
};

}  // namespace rondo::testing
