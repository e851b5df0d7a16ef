#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "runtime/engine.hpp"
#include "runtime/peer.hpp"

// What a peer's link brings, and where it goes.

namespace rondo::detail {

void Peer::deliver(const FrameHeader& header, std::span<const std::byte> payload) {
  asked_ = false;
  if (header.kind == FrameKind::device) return engine_.device_peers().hear(*this, payload);
  if (header.payload_bytes() == 0 && header.kind != FrameKind::eager && header.kind != FrameKind::data) {
    return handle(header);
  }
  const Landing landing = land(header);
  if (landing.receive) {
    landing.receive->take(payload);
  } else if (landing.unexpected) {
    if (!keeps(*landing.unexpected, payload.size())) return finish(header, {});
    landing.unexpected->payload.assign(payload);
  }
  finish(header, landing);
}

bool Peer::expects(const FrameHeader& header) const {
  if (header.kind != FrameKind::eager) return true;
  Group* const group = engine_.find_group(header.communicator);
  return group && group->awaits(header, group->member(world_rank_));
}

std::byte* Peer::accept(const FrameHeader& header) {
  asked_ = false;
  if (header.kind == FrameKind::device) {
    inbox_.resize(std::min<std::size_t>(header.bytes, kLongestDeviceFrame));
    return header.bytes == inbox_.size() ? inbox_.data() : nullptr;
  }
  const Landing landing = land(header);
  if (landing.receive) {
    std::byte* const place = landing.receive->place(header.bytes);
    if (place) landing_ = landing;
    return place;
  }
  if (!landing.unexpected || !keeps(*landing.unexpected, static_cast<std::size_t>(header.bytes))) return nullptr;
  landing_ = landing;
  return landing.unexpected->payload.data();
}

// Takes memory for the payload. False: there is none, and as the message is lost, so is its communicator.
bool Peer::keeps(Unexpected& message, std::size_t bytes) {
  try {
    message.payload.resize(bytes);
    return true;
  } catch (const std::bad_alloc&) {
  }
  const std::string what = fmt::format("no memory for {} bytes", bytes);
  Group* const group = engine_.find_group(message.header.communicator);
  if (!group) {
    engine_.drop_unexpected(message);
    reject(what + " that came before their communicator");
    return false;
  }
  const int source = message.source;
  const Error error(Errc::system,
                    fmt::format("{} has {} that {} sent", group->name(group->rank()), what, group->name(source)),
                    group->facts_of("", source));
  if (message.claimed_by) message.claimed_by->fail(std::make_exception_ptr(error));
  group->drop_unexpected(message);
  group->report_failure(error);
  return false;
}

void Peer::arrived(const FrameHeader& header) {
  if (header.kind == FrameKind::device) return engine_.device_peers().hear(*this, inbox_);
  const Landing landing = std::exchange(landing_, {});
  if (landing.receive) landing.receive->landed(header.bytes);
  finish(header, landing);
}

// The payload is where it belongs, or thrown away.
void Peer::finish(const FrameHeader& header, const Landing& landing) {
  if (header.kind == FrameKind::data) return;
  if (header.kind == FrameKind::piece) {
    // On its way to a device it still takes memory.
    if (!landing.receive || !landing.receive->device_) taken(0);
    return;
  }
  Unexpected* const unexpected = landing.unexpected;
  if (!unexpected) return consumed(header);
  unexpected->complete = true;
  ReceiveMessage* const claimant = std::exchange(unexpected->claimed_by, nullptr);
  if (!claimant) return;
  claimant->take(unexpected->payload);
  claimant->group().drop_unexpected(*unexpected);
}

Peer::Landing Peer::land(const FrameHeader& header) {
  if (header.kind == FrameKind::eager) return land_eager(header);
  if (header.kind == FrameKind::late) return land_late(header);
  const bool last = header.kind == FrameKind::data || header.number != 0;
  ReceiveMessage* const receive = last ? take_awaiting(header.id) : awaiting(header.id);
  if (!receive) return {};
  const std::uint64_t missing = receive->missing_bytes();
  // What a collective receives it may combine, all at once.
  if (last ? header.bytes == missing : header.bytes < missing && !receive->operation()) return {receive, nullptr};
  receive->fail(std::make_exception_ptr(Error(
      Errc::protocol, fmt::format("{} announced {} bytes and sent {}", receive->group().name(receive->status().source),
                                  receive->status().bytes, receive->arrived_ + header.bytes))));
  return {};
}

Peer::Landing Peer::land_eager(const FrameHeader& header) {
  // More than was promised memory for: not what a rondo peer sends.
  if (cost_of(header) > window_) {
    reject("it sent a frame longer than its window");
    return {};
  }
  Group* const group = engine_.find_group(header.communicator);
  if (!group) return {nullptr, engine_.keep_early(header, world_rank_)};
  const int source = group->member(world_rank_);
  if (group->poisoned() || source < 0) return {};
  const bool collective = header.context == FrameHeader::collective;
  if (collective && !group->check_call(header, source)) return {};
  ReceiveMessage* const receive = group->match(header, source);
  if (!receive) return {nullptr, &group->add_unexpected(header, source)};
  if (receive->refuse(header, source)) return {};
  receive->source_ = this;
  return {receive, nullptr};
}

Peer::Landing Peer::land_late(const FrameHeader& header) {
  const auto announced = take_announced(header.id);
  if (announced && announced->header.bytes == header.bytes && announced->header.context == header.context)
    return announced->landing;
  reject("it sent a payload that it had not announced");
  return {};
}

std::optional<Peer::Announced> Peer::take_announced(std::uint32_t id) {
  const auto found =
      std::find_if(announced_.begin(), announced_.end(), [&](const Announced& one) { return one.header.id == id; });
  if (found == announced_.end()) return std::nullopt;
  const Announced announced = *found;
  announced_.erase(found);
  return announced;
}

void Peer::arrived_announce(const FrameHeader& header) {
  const Landing landing = land_eager(header);
  if (landing.receive) {
    landing.receive->state_ = ReceiveMessage::State::awaits_data;
    landing.receive->expect_from(*this);
  }
  announced_.push_back({header, landing});
}

void Peer::recalled(const FrameHeader& header) {
  const auto announced = take_announced(header.id);
  if (!announced) return reject("it took back what it had not announced");
  consumed(announced->header);
  const auto [receive, unexpected] = announced->landing;
  ReceiveMessage* const waiting = unexpected ? unexpected->claimed_by : receive;
  if (waiting) {
    if (is_told_why(header)) return;  // it ends with its communicator
    give_up(*waiting);
  }
  if (unexpected) engine_.drop_unexpected(*unexpected);
}

// Of a failure this rank hears the cause itself, if not yet then soon.
bool Peer::is_told_why(const FrameHeader& given_up) const {
  return given_up.number != 0 && engine_.hears_of_failures();
}

void Peer::give_up(ReceiveMessage& receive) const {
  receive.fail(receive.error_of(Errc::peer_failed, "the sender gave the message up"));
}

void Peer::handle(const FrameHeader& header) {
  switch (header.kind) {
    case FrameKind::announce: return arrived_announce(header);
    case FrameKind::rts: return arrived_rts(header);
    case FrameKind::cts:
    case FrameKind::cts_pieces:
    case FrameKind::satisfied:
    case FrameKind::unwanted: return arrived_answer(header);
    case FrameKind::cancel: {
      ReceiveMessage* const receive = take_awaiting(header.id);
      if (receive && !is_told_why(header)) give_up(*receive);
      return;
    }
    case FrameKind::recall: return recalled(header);
    case FrameKind::credit: credit_ = std::min(credit_ + header.bytes, window_); return;
    case FrameKind::bye:
      bye_received_ = true;
      return header.number == 0 ? engine_.peer_left(*this) : engine_.peer_left_after_error(*this);
    case FrameKind::taken:
      if (!engine_.device_pieces().taken(*this, header.number)) reject("it took a piece that was not sent");
      return;
    case FrameKind::slots:
      if (!engine_.device_pieces().hear_of_slots(*this, header.number)) reject("it spoke of slots that there are not");
      return;
    case FrameKind::in_slot: return arrived_in_slot(header);
    case FrameKind::device:
    case FrameKind::eager:
    case FrameKind::late:
    case FrameKind::piece:
    case FrameKind::data: break;
  }
  reject("it sent a frame of an unknown kind");
}

void Peer::arrived_answer(const FrameHeader& header) {
  const bool in_pieces = header.kind == FrameKind::cts_pieces;
  const bool cleared = header.kind == FrameKind::cts || in_pieces;
  const auto where = engine_.device_messages().where_to_write(world_rank_, header.id);
  engine_.device_messages().over(world_rank_, header.id);
  SendMessage* const message = awaiting_cts(header.id);
  if (!message) {
    if (cleared) cancel(FrameKind::cancel, header.number, header.communicator);
    return;
  }
  if (message->state_ != SendMessage::State::awaits_cts ||
      (in_pieces && message->whole_.size() <= DevicePieces::kBytes))
    return reject("it asked for what it had not been offered");
  forget_cts(header.id);
  if (header.kind == FrameKind::satisfied) return message->complete();
  if (header.kind == FrameKind::unwanted) return message->refused();
  message->clear_to_send(header.number);
  if (message->device_) return engine_.device_messages().begin(*message, *this, where);
  return in_pieces ? engine_.device_pieces().send(*message, *this) : transmit(*message);
}

void Peer::arrived_rts(const FrameHeader& header) {
  Group* const group = engine_.find_group(header.communicator);
  if (!group) {
    Unexpected* const early = engine_.keep_early(header, world_rank_);
    if (!early) return refuse(header);
    early->complete = true;
    return;
  }
  const int source = group->member(world_rank_);
  if (group->poisoned() || source < 0) return need_no_more(header);
  if (header.context == FrameHeader::collective && !group->check_call(header, source)) return need_no_more(header);
  ReceiveMessage* const receive = group->match(header, source);
  if (!receive) {
    group->add_unexpected(header, source).complete = true;
  } else if (receive->refuse(header, source)) {
    need_no_more(header);
  } else {
    receive->source_ = this;
    request(*receive, header);
  }
}

void Peer::arrived_in_slot(const FrameHeader& header) {
  const auto slot = engine_.device_pieces().slot_of(*this, header.tag);
  if (!slot || header.bytes == 0 || header.bytes > DevicePieces::kBytes) {
    return reject("it spoke of a slot that there is not");
  }
  const auto bytes = static_cast<std::size_t>(header.bytes);
  const std::uint32_t number = header.tag + 1;
  ReceiveMessage* const receive = land(header).receive;
  if (receive && receive->device_) {
    return engine_.device_messages().store(*receive, slot, bytes, [this, number] { taken(number); });
  }
  if (receive) receive->take(std::span(slot.get(), bytes));
  taken(number);
}

void Peer::passed(Descriptor descriptor, std::uint64_t number) { engine_.keep_passed(number, std::move(descriptor)); }

void Peer::closed(const std::string& cause) {
  if (!gone_ && !bye_received_) engine_.peer_ended(*this, cause + " without a goodbye");
}

void Peer::reject(const std::string& fault) {
  if (gone_ || bye_received_) return;
  engine_.peer_lost(*this, fault);
}

}  // namespace rondo::detail
