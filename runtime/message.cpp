#include "runtime/message.hpp"

#include <cstring>
#include <new>

#include <fmt/format.h>

#include "runtime/deadline_wait.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

// Collectives match by (number, lane), exactly.
std::uint64_t collective_key(const Operation& operation, std::uint32_t lane) {
  return std::uint64_t{operation.number()} << 32 | lane;
}

}  // namespace

Message::Message(Group& group, Operation* operation, int peer_rank, const char* called)
    : group_(group), operation_(operation), peer_rank_(peer_rank), called_(called) {
  group_.add(*this);
}

// Where its waiter has not gone on that is being destroyed, too.
Message::~Message() {
  if (waiter_) group_.engine().forget(waiter_);
}

void Message::complete(std::exception_ptr error) {
  if (done_) return;
  group_.remove(*this);
  if (expected_from_) expected_from_->expect(-1);
  expected_from_ = nullptr;
  error_ = std::move(error);
  done_ = true;
  if (waiter_) group_.engine().make_ready(waiter_);
}

void Message::fail(std::exception_ptr error) {
  if (done_) return;
  withdraw();
  complete(std::move(error));
}

std::exception_ptr Message::error_of(Errc code, const std::string& what) const {
  return std::make_exception_ptr(Error(code, fmt::format("{}: {}", describe(), what), facts()));
}

Error::Facts Message::facts() const {
  if (!operation_) return group_.facts_of(called_, peer_rank_);
  return group_.facts_of(operation_->call().collective, operation_->number(), peer_rank_);
}

void Message::expect_from(Peer& peer) {
  if (expected_from_) return;
  expected_from_ = &peer;
  peer.expect(1);
}

BlockedOn Message::blocked_on() const {
  return {.call = fmt::format("{} {}", called_, describe()), .ranks = group_.in_world(unmatched())};
}

std::exception_ptr timed_out(const Message& message) {
  const auto timeout = message.group().engine().settings().timeout.value_or(Duration::zero());
  return message.error_of(Errc::timed_out, fmt::format("{} within {} (RONDO_TIMEOUT){}", message.missing(),
                                                       seconds_text(timeout), message.advice()));
}

// Sends.

FrameHeader header_of(const Group& group, Tag tag, ElementType type, std::size_t bytes) noexcept {
  FrameHeader header;
  header.type = static_cast<std::uint8_t>(type);
  header.tag = tag.value;
  header.communicator = group.id();
  header.bytes = bytes;
  return header;
}

SendMessage::SendMessage(Group& group, int to, Tag tag, ElementType type, std::span<const std::byte> bytes,
                         std::shared_ptr<DeviceBuffer> device, const char* called)
    : Message(group, nullptr, to, called),
      peer_(&group.engine().peer(group.world_rank(to))),
      whole_(bytes),
      device_(std::move(device)) {
  header = header_of(group, tag, type, bytes.size());
  on_sent = &SendMessage::sent;
  group.engine().progress().habits().expect(bytes.size());
  peer_->send(*this);
}

SendMessage::SendMessage(Operation& operation, int to, std::uint32_t lane, std::span<const std::byte> bytes)
    : Message(operation.group(), &operation, to),
      peer_(&operation.group().engine().peer(operation.group().world_rank(to))),
      whole_(bytes) {
  operation.stamp(header);
  header.tag = lane;
  header.bytes = bytes.size();
  on_sent = &SendMessage::sent;
  if (group_.poisoned()) {
    complete(group_.failure());
  } else {
    peer_->send(*this);
  }
}

SendMessage::~SendMessage() {
  if (done()) return;
  withdraw();
  complete();
}

void SendMessage::sent(Outgoing& frame) noexcept {
  auto& message = static_cast<SendMessage&>(frame);
  if (message.header.kind == FrameKind::rts) {
    message.state_ = State::awaits_cts;
  } else {
    message.complete();
  }
}

void SendMessage::clear_to_send(std::uint32_t receiver_id) {
  header.kind = FrameKind::data;
  header.id = receiver_id;
  if (!operation_) header.fingerprint = {};
  payload = whole_;
  state_ = device_ ? State::copying : State::in_link;
}

void SendMessage::refused() {
  const std::string what = destroyed_text(group_.name(peer_rank_));
  if (operation_) return group_.report_failure(Error(Errc::peer_failed, what, facts()));
  fail(error_of(Errc::peer_failed, what));
}

void SendMessage::withdraw() noexcept {
  if (device_) device_->given_up = true;
  peer_->take_back(*this);
}

bool SendMessage::order(CudaStream stream) {
  if (!device_) return false;
  DeviceMessages& messages = group_.engine().device_messages();
  switch (state_) {
    case State::unsent: return false;
    case State::in_link: return header.kind != FrameKind::rts;
    case State::awaits_cts:
      return messages.is_offered(peer_->world_rank(), header.id) &&
             messages.order(peer_->world_rank(), header.id, stream);
    case State::in_pieces:
      if (!group_.engine().device_pieces().all_begun(*this, *peer_)) return false;
      [[fallthrough]];
    case State::copying: return group_.engine().device().order(*device_, stream);
  }
  return false;
}

std::vector<int> SendMessage::unmatched() const {
  // Of one in a device's memory the receiver says nothing before both streams have come to it.
  const bool waits = state_ == State::unsent || state_ == State::awaits_cts;
  return waits && !device_ ? std::vector{peer_rank_} : std::vector<int>();
}

std::string SendMessage::describe() const {
  return fmt::format("{} bytes to {} with tag {}", whole_.size(), group_.name(peer_rank_), header.tag);
}

std::string SendMessage::missing() const {
  if (state_ == State::copying) return "the device did not copy it";
  const bool reached = peer_->connected() || peer_rank_ == group_.rank();
  return reached ? "not received" : "no connection was made, for which both must be in a call of rondo,";
}

std::string SendMessage::advice() const {
  const bool waited = std::string_view(called_) == "send";
  if (peer_rank_ == group_.rank()) return waited ? "; to itself a rank sends by sendrecv or isend" : "";
  if (!peer_->connected() || state_ == State::copying) return "";
  if (peer_->held_back(*this))
    return "; what was sent before is not received, and takes this rank's share of RONDO_UNEXPECTED_BYTES";
  return waited ? fmt::format("; if {} sends first too, use sendrecv or isend", group_.name(peer_rank_)) : "";
}

// Receives.

ReceiveMessage::ReceiveMessage(Group& group, int from, Tag tag, ElementType type, std::span<std::byte> buffer,
                               std::shared_ptr<DeviceBuffer> device, const char* called)
    : Message(group, nullptr, from, called), buffer_(buffer), device_(std::move(device)), type_(type), key_(tag.value) {
  if (tag == any_tag) key_mask_ = 0;
  group.engine().progress().habits().expect(buffer.size());
  post();
}

ReceiveMessage::ReceiveMessage(Operation& operation, int from, std::uint32_t lane, std::span<std::byte> buffer)
    : Message(operation.group(), &operation, from), buffer_(buffer), key_(collective_key(operation, lane)) {
  post();
}

ReceiveMessage::ReceiveMessage(Operation& operation, int from, std::uint32_t lane, const Fold& fold)
    : Message(operation.group(), &operation, from),
      buffer_(fold.into),
      fold_(fold),
      key_(collective_key(operation, lane)) {
  post();
}

ReceiveMessage::~ReceiveMessage() {
  if (done()) return;
  withdraw();
  complete();
}

void ReceiveMessage::post() {
  if (operation_ && group_.poisoned()) return complete(group_.failure());
  const auto context = operation_ ? FrameHeader::collective : FrameHeader::point_to_point;
  Engine& engine = group_.engine();
  if (peer_rank_ == any_source) {
    engine.expect_any(1);
  } else {
    expect_from(engine.peer(group_.world_rank(peer_rank_)));
  }
  Unexpected* const early = group_.find_unexpected(context, *this);
  if (!early) {
    group_.post(context, *this);
    if (peer_rank_ == any_source) return;
    const Peer& peer = engine.peer(group_.world_rank(peer_rank_));
    if (engine.has_left(peer)) group_.member_left(peer_rank_, peer.cause());
    return;
  }
  if (peer_rank_ == any_source) engine.expect_any(-1);
  Peer& source = engine.peer(group_.world_rank(early->source));
  const FrameHeader header = early->header;
  if (header.kind == FrameKind::rts) {
    group_.drop_unexpected(*early);
    if (refuse(header, group_.member(source.world_rank()))) return source.need_no_more(header);
    source_ = &source;
    return source.request(*this, header);
  }
  if (refuse(header, early->source)) return group_.drop_unexpected(*early);
  source_ = &source;
  if (early->complete) {
    take(early->payload);
    group_.drop_unexpected(*early);
    return;
  }
  state_ = State::claims_unexpected;
  unexpected_ = early;
  early->claimed_by = this;
  expect_from(source);
}

bool ReceiveMessage::refuse(const FrameHeader& header, int source) {
  status_ = {source, Tag{header.tag}, static_cast<std::size_t>(header.bytes)};
  if (operation_) {
    if (header.bytes == buffer_.size()) return false;
    group_.report_count(*operation_, source, header.bytes, buffer_.size());
    return true;  // ends with the group
  }
  const auto sent_type = static_cast<ElementType>(header.type);
  if (sent_type != type_ && sent_type != ElementType::bytes && type_ != ElementType::bytes) {
    complete(std::make_exception_ptr(
        Error(Errc::type_mismatch,
              fmt::format("message from {} with tag {}: got elements of type {}, wanted {}", group_.name(source),
                          header.tag, to_string(sent_type), to_string(type_)),
              facts())));
    return true;
  }
  if (header.bytes <= buffer_.size()) return false;
  complete(std::make_exception_ptr(Error(Errc::truncated,
                                         fmt::format("message from {} with tag {}: got {} bytes, wanted at most {}",
                                                     group_.name(source), header.tag, header.bytes, buffer_.size()),
                                         facts())));
  return true;
}

std::byte* ReceiveMessage::place(std::size_t bytes) {
  state_ = State::landing;
  if (device_) {
    device_->staging = group_.engine().device().stage(bytes);
    return device_->staging->data();
  }
  if (!fold_.combine) return buffer_.data() + arrived_;
  try {
    scratch_ = group_.engine().take_scratch(buffer_.size());
  } catch (const std::bad_alloc&) {
    fail(std::make_exception_ptr(
        Error(Errc::system, fmt::format("no memory for the {} bytes that {} sent", bytes, group_.name(status_.source)),
              facts())));
  }
  return scratch_;
}

void ReceiveMessage::landed(std::size_t bytes) {
  if (device_) return group_.engine().device_messages().store(*this, bytes);
  arrived_ += bytes;
  if (missing_bytes() > 0) {
    state_ = State::awaits_data;
    return;
  }
  if (scratch_) {
    fold_.combine(fold_.context, fold_.into.data(), scratch_, fold_.into.size());
    group_.engine().give_scratch(std::exchange(scratch_, nullptr), buffer_.size());
  }
  complete();
}

void ReceiveMessage::take(std::span<const std::byte> payload) {
  if (fold_.combine) {
    fold_.combine(fold_.context, fold_.into.data(), payload.data(), payload.size());
    return complete();
  }
  if (!payload.empty()) std::memcpy(place(payload.size()), payload.data(), payload.size());
  landed(payload.size());
}

void ReceiveMessage::withdraw() noexcept {
  switch (state_) {
    case State::posted:
      if (peer_rank_ == any_source) group_.engine().expect_any(-1);
      group_.unpost(*this);
      break;
    case State::claims_unexpected: unexpected_->claimed_by = nullptr; break;
    case State::awaits_data:
    case State::landing:
    case State::reading:
      source_->forget(*this);
      if (device_) device_->given_up = true;
      if (scratch_) group_.engine().give_scratch(std::exchange(scratch_, nullptr), buffer_.size());
      break;
    case State::copying:
    case State::storing: device_->given_up = true; break;
  }
}

bool ReceiveMessage::order(CudaStream stream) {
  if (!device_) return false;
  if (state_ == State::awaits_data && may_be_written_) {
    const auto number = source_->number_of(*this);
    return number && group_.engine().device_messages().order(source_->world_rank(), *number, stream);
  }
  const bool all_here = state_ == State::copying || missing_bytes() == 0;
  return all_here && group_.engine().device().order(*device_, stream);
}

// Once matched, a receive from any source waits for one; once all is here, only for the device.
bool ReceiveMessage::awaits(int member) const noexcept {
  if (state_ == State::storing) return false;
  return (state_ == State::posted ? peer_rank_ : status_.source) == member;
}

std::vector<int> ReceiveMessage::unmatched() const {
  return state_ == State::posted ? group_.sources(peer_rank_) : std::vector<int>();
}

Error::Facts ReceiveMessage::facts() const {
  Error::Facts known = Message::facts();
  if (known.peer == any_source) known.peer = status_.source;
  return known;
}

std::string ReceiveMessage::describe() const {
  const std::string text = "from " + group_.name(peer_rank_);
  return key_mask_ == 0 ? text + " with any tag" : text + fmt::format(" with tag {}", static_cast<std::uint32_t>(key_));
}

std::string ReceiveMessage::missing() const {
  if (state_ == State::posted) return "no such message came";
  if (state_ == State::copying || state_ == State::storing) return "the device did not copy it";
  return group_.name(status_.source) + " announced it, its payload did not come";
}

}  // namespace rondo::detail
