#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <rondo/communicator.hpp>
#include <rondo/error.hpp>

#include "runtime/access.hpp"
#include "runtime/deadline_wait.hpp"
#include "runtime/membership.hpp"
#include "runtime/message_arguments.hpp"
#include "runtime/naming.hpp"

namespace rondo {

using detail::check_apart;
using detail::check_buffer;
using detail::check_destination;
using detail::check_source;
using detail::check_tag;
using detail::Engine;
using detail::Group;
using detail::Peer;
using detail::Progress;
using detail::ReceiveMessage;
using detail::SendMessage;

namespace {

constexpr const char* kAllOthersLeft = "all other ranks have left";

// Nobody is left whom it could come from.
template <typename Kind>
bool is_in_vain(const Kind& message) {
  return message.awaits_any() && message.group().all_others_left();
}

// Nothing happens to one that is complete.
template <typename Kind>
void end_wait(Kind& message) {
  message.fail(is_in_vain(message) ? message.error_of(Errc::peer_failed, kAllOthersLeft) : detail::timed_out(message));
}

// A point-to-point message that its caller waits for later.
template <typename Kind>
class MessageWork final : public detail::Waitable {
 public:
  template <typename... Args>
  explicit MessageWork(Group& group, Args... args) : Waitable(group.rank()), message_(group, args...) {
    const Engine& engine = group.engine();
    if (!message_.done() && engine.settings().timeout)
      deadline = detail::after(engine.clock().now(), *engine.settings().timeout);
  }

  bool finished() const noexcept override { return message_.done(); }
  std::exception_ptr error() const noexcept override { return message_.error(); }
  Status status() const noexcept override {
    if constexpr (std::same_as<Kind, ReceiveMessage>) {
      return message_.status();
    } else {
      return {};
    }
  }
  bool order(CudaStream stream) override { return message_.order(stream); }
  bool in_vain() const override { return is_in_vain(message_); }
  void expire(detail::Time) override { end_wait(message_); }
  void abandon() override { message_.fail(message_.error_of(Errc::peer_failed, "it was given up")); }

 private:
  detail::BlockedOn still_blocked_on() const override { return message_.blocked_on(); }

  Kind message_;
};

// What a caller gave of a device, refused in the words of whoever looked at it.
std::shared_ptr<detail::DeviceBuffer> begin(const Group& group, const detail::DeviceBytes& data, int peer,
                                            const char* operation) {
  return detail::naming(group.rank(), peer, [&] { return group.engine().device().begin(data, operation); });
}

// All of them are needed: who keeps one from its end keeps the call.
template <typename... Messages>
detail::BlockedOn blocked_on(const Messages&... messages) {
  detail::BlockedOn all;
  const auto add = [&](const detail::Message& message) {
    if (message.done()) return;
    const detail::BlockedOn what = message.blocked_on();
    all.call += (all.call.empty() ? "" : " and ") + what.call;
    all.ranks.insert(all.ranks.end(), what.ranks.begin(), what.ranks.end());
  };
  (add(messages), ...);
  return all;
}

// Drives until the messages are complete. Throws the first failure; at the deadline all that are not complete fail.
template <typename... Messages>
void complete(Progress::Entry& entry, Group& group, Messages&... messages) {
  if (!(messages.done() && ...)) {
    Engine& engine = group.engine();
    const detail::BlockedWhile blocked(engine, [&] { return blocked_on(messages...); });
    const auto over = [&] { return ((messages.done() || is_in_vain(messages)) && ...); };
    const auto& timeout = engine.settings().timeout;
    const auto deadline = timeout ? std::optional(detail::after(engine.clock().now(), *timeout)) : std::nullopt;
    engine.progress().until(entry, over, deadline, Progress::Asker::any_thread);
    if (!(messages.done() && ...)) (end_wait(messages), ...);
  }
  (messages.await_resume(), ...);
}

detail::EagerHeader header_of(const Group& group, Tag tag, ElementType type) {
  return detail::EagerHeader::of(static_cast<std::uint8_t>(type), tag.value, group.id());
}

bool send_now(Group& group, int to, Tag tag, ElementType type, std::span<const std::byte> data) {
  return group.engine().peer(group.world_rank(to)).send_now(header_of(group, tag, type), data);
}

void send_in_turn(Progress::Entry& entry, Group& group, int to, Tag tag, ElementType type,
                  std::span<const std::byte> data) {
  SendMessage message(group, to, tag, type, data);
  complete(entry, group, message);
}

Status receive_in_turn(Progress::Entry& entry, Group& group, int from, Tag tag, ElementType type,
                       std::span<std::byte> data, const char* operation) {
  ReceiveMessage message(group, from, tag, type, data, nullptr, operation);
  complete(entry, group, message);
  return message.status();
}

Status receive(Progress::Entry& entry, Group& group, int from, Tag tag, ElementType type, std::span<std::byte> data,
               const char* operation) {
  if (from != any_source && group.awaits_nothing()) {
    Peer& peer = group.engine().peer(group.world_rank(from));
    const Peer::Received now = peer.receive_soon(header_of(group, tag, type), tag == any_tag, data);
    if (now.there) return {from, now.tag, now.bytes};
  }
  return receive_in_turn(entry, group, from, tag, type, data, operation);
}

Status status_of(const detail::Unexpected& message) {
  return {message.source, Tag{message.header.tag}, static_cast<std::size_t>(message.header.bytes)};
}

}  // namespace

void CommunicatorAccess::refuse_inert(const char* operation) {
  throw Error(
      Errc::not_initialized,
      "this communicator is inert: rondo::init did not make it, or this rank is no member of it, or it was moved "
      "from",
      {.operation = operation});
}

Communicator::Communicator() noexcept = default;

Communicator::Communicator(Communicator&& other) noexcept
    : engine_(std::move(other.engine_)), group_(std::exchange(other.group_, nullptr)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    close();
    engine_ = std::move(other.engine_);
    group_ = std::exchange(other.group_, nullptr);
  }
  return *this;
}

Communicator::~Communicator() { close(); }

Communicator::Communicator(std::shared_ptr<Engine> engine, Group& group) : engine_(std::move(engine)), group_(&group) {}

void Communicator::close() noexcept {
  if (!group_ || engine_->progress().forked()) return;
  Progress::Entry entry(engine_->progress());
  // What streams wait for is queued; its senders must hear that it is over, its receivers get what went through the
  // host.
  const auto over = [this] { return engine_->nothing_later(); };
  if (std::uncaught_exceptions() == 0) {
    engine_->progress().until(
        entry, [&] { return over() || group_->failed(); }, engine_->last_deadline());
  }
  constexpr std::chrono::seconds kLongest{1};
  engine_->progress().until(entry, over, engine_->clock().now() + kLongest);
  engine_->close_group(*std::exchange(group_, nullptr));
}

int Communicator::rank() const { return CommunicatorAccess::group(*this, "rank").rank(); }
int Communicator::size() const { return CommunicatorAccess::group(*this, "size").size(); }

void Communicator::send_bytes(std::span<const std::byte> data, ElementType type, int to, Tag tag) {
  Group& group = CommunicatorAccess::group(*this, "send");
  check_destination(group, to, "send");
  check_tag(group, tag, "send");
  check_buffer(group, data, "send");
  Progress::Entry entry(engine_->progress());
  group.check();
  if (!send_now(group, to, tag, type, data)) send_in_turn(entry, group, to, tag, type, data);
}

Work Communicator::isend_bytes(std::span<const std::byte> data, ElementType type, int to, Tag tag,
                               const char* operation) {
  Group& group = CommunicatorAccess::group(*this, operation);
  check_destination(group, to, operation);
  check_tag(group, tag, operation);
  check_buffer(group, data, operation);
  Progress::Entry entry(engine_->progress());
  group.check();
  return Work(engine_, std::make_unique<MessageWork<SendMessage>>(group, to, tag, type, data, nullptr, operation));
}

Work Communicator::isend_device(const detail::DeviceBytes& data, ElementType type, int to, Tag tag,
                                const char* operation) {
  Group& group = CommunicatorAccess::group(*this, operation);
  const std::span bytes(static_cast<const std::byte*>(data.data), data.size);
  check_destination(group, to, operation);
  check_tag(group, tag, operation);
  check_buffer(group, bytes, operation);
  Progress::Entry entry(engine_->progress());
  group.check();
  auto device = begin(group, data, to, operation);
  return Work(engine_,
              std::make_unique<MessageWork<SendMessage>>(group, to, tag, type, bytes, std::move(device), operation));
}

Work Communicator::irecv_device(const detail::DeviceBytes& data, ElementType type, int from, Tag tag,
                                const char* operation) {
  Group& group = CommunicatorAccess::group(*this, operation);
  const std::span bytes(static_cast<std::byte*>(const_cast<void*>(data.data)), data.size);
  check_source(group, from, operation);
  check_buffer(group, bytes, operation);
  Progress::Entry entry(engine_->progress());
  group.check();
  auto device = begin(group, data, from, operation);
  return Work(engine_, std::make_unique<MessageWork<ReceiveMessage>>(group, from, tag, type, bytes, std::move(device),
                                                                     operation));
}

Status Communicator::recv_bytes(std::span<std::byte> data, ElementType type, int from, Tag tag) {
  Group& group = CommunicatorAccess::group(*this, "recv");
  check_source(group, from, "recv");
  check_buffer(group, data, "recv");
  Progress::Entry entry(engine_->progress());
  group.check();
  return receive(entry, group, from, tag, type, data, "recv");
}

Work Communicator::irecv_bytes(std::span<std::byte> data, ElementType type, int from, Tag tag, const char* operation) {
  Group& group = CommunicatorAccess::group(*this, operation);
  check_source(group, from, operation);
  check_buffer(group, data, operation);
  Progress::Entry entry(engine_->progress());
  group.check();
  return Work(engine_, std::make_unique<MessageWork<ReceiveMessage>>(group, from, tag, type, data, nullptr, operation));
}

Status Communicator::sendrecv_bytes(std::span<const std::byte> out, ElementType out_type, int to,
                                    std::span<std::byte> in, ElementType in_type, int from, Tag tag) {
  Group& group = CommunicatorAccess::group(*this, "sendrecv");
  check_destination(group, to, "sendrecv");
  check_source(group, from, "sendrecv");
  check_tag(group, tag, "sendrecv");
  check_buffer(group, out, "sendrecv");
  check_buffer(group, in, "sendrecv");
  check_apart(group, out, in);
  Progress::Entry entry(engine_->progress());
  group.check();
  if (send_now(group, to, tag, out_type, out)) return receive(entry, group, from, tag, in_type, in, "sendrecv");
  ReceiveMessage received(group, from, tag, in_type, in, nullptr, "sendrecv");
  SendMessage sent(group, to, tag, out_type, out, nullptr, "sendrecv");
  complete(entry, group, received, sent);
  return received.status();
}

// Of a device's memory these are addresses.
void Communicator::check_exchange(std::span<const std::byte> out, std::span<const std::byte> in) const {
  check_apart(CommunicatorAccess::group(*this, "sendrecv"), out, in);
}

Status Communicator::probe(int from, Tag tag) {
  Group& group = CommunicatorAccess::group(*this, "probe");
  check_source(group, from, "probe");
  Progress::Entry entry(engine_->progress());
  group.check();
  const detail::Unexpected* found = nullptr;
  const detail::Peer* const peer = from == any_source ? nullptr : &engine_->peer(group.world_rank(from));
  const auto look = [&] {
    found = group.find_unexpected(from, tag);
    return found || group.poisoned() || (peer ? engine_->has_left(*peer) : group.all_others_left());
  };
  const auto wanted = [&] {
    return fmt::format("from {} with {}", group.name(from),
                       tag == any_tag ? "any tag" : fmt::format("tag {}", tag.value));
  };
  const detail::BlockedWhile blocked(*engine_, [&] {
    return detail::BlockedOn{.call = "probe " + wanted(), .ranks = group.in_world(group.sources(from))};
  });
  const auto& timeout = engine_->settings().timeout;
  const auto deadline = timeout ? std::optional(detail::after(engine_->clock().now(), *timeout)) : std::nullopt;
  engine_->expect_any(1);
  const bool in_time = engine_->progress().until(entry, look, deadline, Progress::Asker::any_thread);
  engine_->expect_any(-1);
  group.check();
  if (found) return status_of(*found);
  if (in_time) {
    const std::string cause =
        peer ? fmt::format("{} {}", group.name(from), peer->cause()) : std::string(kAllOthersLeft);
    throw Error(Errc::peer_failed, fmt::format("no message {}: {}", wanted(), cause), group.facts_of("probe", from));
  }
  throw Error(Errc::timed_out,
              fmt::format("no message {} came within {} (RONDO_TIMEOUT)", wanted(), detail::seconds_text(*timeout)),
              group.facts_of("probe", from));
}

std::optional<Status> Communicator::iprobe(int from, Tag tag) {
  Group& group = CommunicatorAccess::group(*this, "iprobe");
  check_source(group, from, "iprobe");
  Progress::Entry entry(engine_->progress());
  group.check();
  engine_->expect_any(1);
  if (!group.find_unexpected(from, tag)) {
    engine_->progress().poke(entry);
    engine_->tick_if_due();
  }
  engine_->expect_any(-1);
  const detail::Unexpected* const found = group.find_unexpected(from, tag);
  return found ? std::optional(status_of(*found)) : std::nullopt;
}

// New communicators.

Communicator Communicator::subgroup(std::span<const int> ranks) {
  Group& group = CommunicatorAccess::group(*this, "subgroup");
  std::vector<bool> named(static_cast<std::size_t>(group.size()));
  for (const int rank : ranks) {
    if (!group.has(rank)) detail::refuse_rank(group, rank, "subgroup", "member");
    if (named[static_cast<std::size_t>(rank)]) {
      throw Error(Errc::invalid_argument, fmt::format("rank {} is named twice: wanted each rank at most once", rank),
                  group.facts_of("subgroup", rank));
    }
    named[static_cast<std::size_t>(rank)] = true;
  }
  Progress::Entry entry(engine_->progress());
  Group* const made = detail::make_subgroup(entry, group, ranks);
  return made ? Communicator(engine_, *made) : Communicator();
}

Communicator Communicator::split(int color, int key) {
  Group& group = CommunicatorAccess::group(*this, "split");
  Progress::Entry entry(engine_->progress());
  Group* const made = detail::split_group(entry, group, color, key);
  return made ? Communicator(engine_, *made) : Communicator();
}

Communicator Communicator::dup() { return split(0, rank()); }

}  // namespace rondo
