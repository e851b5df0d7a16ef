#include "runtime/device_messages.hpp"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "runtime/engine.hpp"

namespace rondo::detail {
std::exception_ptr error_of(const std::exception_ptr& failure, const Message& message) {
  return std::make_exception_ptr(detail::error_of(failure, message.describe(), message.facts()));
}

RankDevice::Opened& DeviceMessages::device() const { return *engine_.device().opened(); }

// Sends.

void DeviceMessages::offer(SendMessage& message, int to) {
  DeviceOffer offer = offer_of(*message.device_, to);
  if (offer.place.region != 0) offers_[{to, message.header.id}] = {offer.ready, {}};
  offer.write_to(message.header);
}

DeviceOffer DeviceMessages::offer_of(const DeviceBuffer& buffer, int to) {
  DevicePlace place = engine_.device_peers().expose(to, buffer.memory, buffer.address);
  if (place.region == 0) return {};
  place.ticket = engine_.peer(to).device_ticket();
  try {
    // What is there already nobody is to wait for.
    if (engine_.device().came(buffer)) return {.place = place, .ready = cuda::kNoEvent};
    const auto ready = device().events.record(handle_of(buffer.stream));
    // All events in use: as many messages are on their way already.
    if (ready) return {.place = place, .ready = *ready};
  } catch (const cuda::CudaError& error) {
    engine_.device_peers().stage_instead(error);
  }
  return {};
}

void DeviceMessages::may_write(Peer& peer, const DeviceWrite& where) {
  const auto offer = offers_.find({peer.world_rank(), where.message});
  if (offer == offers_.end()) return peer.reject("it asked for what it had not been offered");
  if (where.due != cuda::kNoEvent && where.due.index >= RankDevice::kEvents) {
    return peer.reject("it spoke of an event that there is not");
  }
  offer->second.where = where;
}

std::optional<DeviceWrite> DeviceMessages::where_to_write(int peer, std::uint32_t id) const {
  const auto offer = offers_.find({peer, id});
  return offer == offers_.end() ? std::nullopt : offer->second.where;
}

void DeviceMessages::over(int peer, std::uint32_t id) {
  ended(peer, id);
  if (const auto offer = offers_.extract({peer, id})) (void)device().events.give_back(offer.mapped().ready);
}

// For others' copies.

bool DeviceMessages::order(int peer, std::uint32_t number, CudaStream stream) {
  DevicePeers& peers = engine_.device_peers();
  const auto [ask, is_new] = asks_.try_emplace({peer, number});
  if (is_new) engine_.peer(peer).tell_of_device(encode_device_frame(DeviceAsk{number}));
  if (!ask->second || !peers.reaches(peer)) return false;
  const cuda::EventTicket copied = *ask->second;
  asks_.erase(ask);
  try {
    peers.events(peer).wait(copied, handle_of(stream));
    engine_.device().note_wait(stream);
  } catch (const cuda::CudaError& error) {
    peers.used(peer, copied);
    throw detail::error_of(error, "wait_on");
  }
  peers.used(peer, copied);
  return true;
}

void DeviceMessages::ended(int peer, std::uint32_t number) {
  const auto ask = asks_.find({peer, number});
  if (ask == asks_.end()) return;
  if (ask->second) {
    engine_.device_peers().used(peer, *ask->second);
  } else {
    engine_.peer(peer).tell_of_device(encode_device_frame(DeviceAskNoMore{number}));
  }
  asks_.erase(ask);
}

void DeviceMessages::queued(Peer& peer, const DeviceQueued& copy) {
  if (copy.copied.index >= RankDevice::kEvents) return peer.reject("it spoke of an event that there is not");
  const auto ask = asks_.find({peer.world_rank(), copy.message});
  if (ask == asks_.end()) return engine_.device_peers().used(peer.world_rank(), copy.copied);
  if (ask->second) return peer.reject("it answered a question twice");
  ask->second = copy.copied;
}

void DeviceMessages::ask(Peer& peer, const DeviceAsk& ask) {
  constexpr std::uint32_t kLast = ~std::uint32_t{0};
  const int from = peer.world_rank();
  const auto open =
      static_cast<std::size_t>(std::distance(asked_.lower_bound({from, 0}), asked_.upper_bound({from, kLast})));
  if (open == kMostAsks) return peer.reject(fmt::format("it asked of more than {} copies at a time", kMostAsks));
  asked_.insert({from, ask.message});
}

void DeviceMessages::poll() {
  std::erase_if(asked_, [this](const Key& ask) { return answer(ask); });
}

bool DeviceMessages::answer(const Key& ask) noexcept {
  const auto copy = copying_.find(ask);
  if (copy == copying_.end()) return false;
  cuda::Copies& copies = device().copies;
  cuda::Copies::Running& running = *copy->second->copy;
  try {
    if (!copies.hasten(running)) return false;
    const auto copied = device().events.record(copies.stream_of(running), 1, owner_of(ask.first));
    if (!copied) return false;
    engine_.device_peers().introduce(ask.first);
    engine_.peer(ask.first).tell_of_device(encode_device_frame(DeviceQueued{ask.second, *copied}));
  } catch (const cuda::CudaError&) {
    // They hear of the copy itself.
  }
  return true;
}

void DeviceMessages::gone(int peer) {
  const auto is_theirs = [peer](const auto& key) { return key.first == peer; };
  std::erase_if(asked_, is_theirs);
  std::erase_if(asks_, [&](const auto& ask) { return is_theirs(ask.first); });
  engine_.device().give_up_events(owner_of(peer));
  for (auto offer = offers_.lower_bound({peer, 0}); offer != offers_.end() && offer->first.first == peer;) {
    (void)device().events.give_back(offer->second.ready);
    offer = offers_.erase(offer);
  }
}

void DeviceMessages::begin(SendMessage& message, Peer& peer, const std::optional<DeviceWrite>& where) {
  if (where && write(message, peer, *where)) return;
  if (message.device_->bytes <= DevicePieces::kBytes) return bring_to_host(message);
  cuda::Copies::Copy none;
  none.ready = [this, where, to = peer.world_rank(), rank = message.peer_rank()] {
    return !where || !engine_.device_peers().reaches(to) || is_done(to, where->due, rank);
  };
  const auto due = [this, &message, &peer, buffer = message.device_](const std::exception_ptr& failure) {
    if (buffer->given_up) return;
    if (failure) return message.fail(error_of(failure, message));
    engine_.device_pieces().send(message, peer);
  };
  engine_.device().start(message.device_, std::move(none), due);
}

bool DeviceMessages::is_done(int world_rank, cuda::EventTicket ticket, int rank) const {
  const DevicePeers& peers = engine_.device_peers();
  return !peers.ends(world_rank) && (ticket == cuda::kNoEvent || peers.events(world_rank).done(ticket, rank));
}

void DeviceMessages::start_after(const std::shared_ptr<DeviceBuffer>& buffer, int world_rank, cuda::EventTicket ticket,
                                 cuda::Copies::Copy copy, RankDevice::Ended ended) {
  const int rank = copy.peer;
  copy.ready = [this, world_rank, ticket, rank] { return is_done(world_rank, ticket, rank); };
  copy.follow = [this, buffer, world_rank, ticket, rank](cuda::StreamHandle stream) {
    const DevicePeers& peers = engine_.device_peers();
    if (peers.ends(world_rank)) return false;
    engine_.device().follow(*buffer, stream);
    if (ticket != cuda::kNoEvent) peers.events(world_rank).wait(ticket, stream, rank);
    return true;
  };
  engine_.device().start(buffer, std::move(copy), std::move(ended));
}

bool DeviceMessages::write(SendMessage& message, Peer& peer, const DeviceWrite& where) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  DevicePeers& peers = engine_.device_peers();
  std::optional<cuda::ImportTable::Use> used;
  try {
    used = peers.map(peer.world_rank(), where.place, buffer->bytes);
  } catch (const cuda::RegionError& error) {
    peer.reject(error.what());
    return true;
  }
  if (!used) return false;
  auto use = std::make_shared<cuda::ImportTable::Use>(std::move(*used));
  cuda::Copies::Copy copy;
  copy.to = use->address();
  copy.from = buffer->address;
  copy.bytes = buffer->bytes;
  copy.peer = message.peer_rank();
  copy.given_up = [buffer] { return buffer->unwanted; };
  const Key key{peer.world_rank(), message.header.id};
  copying_[key] = buffer;
  const auto ended = [this, key, &message, &peer, buffer, use](const std::exception_ptr& failure) {
    copying_.erase(key);
    if (buffer->given_up) return;
    if (failure) return message.fail(error_of(failure, message));
    peer.tell_of_device(encode_device_frame(DeviceWritten{key.second}));
    message.complete();
  };
  start_after(buffer, peer.world_rank(), where.due, std::move(copy), ended);
  return true;
}

// Such a copy ends as if it had been made.
void DeviceMessages::write_no_more(int peer, const DeviceWriteNoMore& unwanted) {
  const auto copy = copying_.find({peer, unwanted.receive});
  if (copy != copying_.end()) copy->second->unwanted = true;
}

void DeviceMessages::bring_to_host(SendMessage& message) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  buffer->staging = engine_.device().stage(buffer->bytes);
  engine_.device().read(buffer, std::span(buffer->staging->data(), buffer->bytes), message.peer_rank(),
                        [&message, buffer](const std::exception_ptr& failure) {
                          if (buffer->given_up) return;
                          if (failure) return message.fail(error_of(failure, message));
                          message.peer_->send_from_host(message, std::span(buffer->staging->data(), buffer->bytes));
                        });
}

// Receives.

bool DeviceMessages::copy_offered(ReceiveMessage& message, Peer& peer, const FrameHeader& rts) {
  const auto offer = DeviceOffer::of(rts);
  if (offer.place.region == 0) return false;
  if (offer.ready != cuda::kNoEvent && offer.ready.index >= RankDevice::kEvents) {
    peer.reject("it spoke of an event that there is not");
    return true;
  }
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  DevicePeers& peers = engine_.device_peers();
  const bool is_ready = offer.ready == cuda::kNoEvent;
  const bool better_writes = peers.reaches(peer.world_rank()) && peers.better_writes(peer.world_rank(), is_ready);
  if (better_writes && let_write(message, peer, rts)) return true;
  std::shared_ptr<cuda::ImportTable::Use> use;
  try {
    auto used = peers.map(peer.world_rank(), offer.place, rts.bytes);
    if (!used) return false;
    use = std::make_shared<cuda::ImportTable::Use>(std::move(*used));
  } catch (const cuda::RegionError& error) {
    peer.reject(error.what());
    return true;
  }
  message.state_ = ReceiveMessage::State::copying;
  message.arrived_ = static_cast<std::size_t>(rts.bytes);
  message.expect_from(peer);
  const Key key{peer.world_rank(), rts.id};
  cuda::Copies::Copy copy;
  copy.to = buffer->address;
  copy.from = use->address();
  copy.bytes = static_cast<std::size_t>(rts.bytes);
  copy.peer = message.status().source;
  copying_[key] = buffer;
  const auto ended = [this, key, &message, &peer, buffer, use, rts](const std::exception_ptr& failure) {
    copying_.erase(key);
    const bool good = peer.still_offers(DeviceOffer::of(rts).place.ticket);
    if (!good && !failure && !buffer->given_up) return peer.confirm(message, rts);
    peer.need_no_more(rts);
    if (buffer->given_up) return;
    message.complete(failure ? error_of(failure, message) : nullptr);
  };
  start_after(buffer, peer.world_rank(), offer.ready, std::move(copy), ended);
  return true;
}

bool DeviceMessages::let_write(ReceiveMessage& message, Peer& peer, const FrameHeader& rts) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  const auto write = std::make_shared<DeviceWrite>();
  write->message = rts.id;
  write->place = engine_.device_peers().expose(peer.world_rank(), buffer->memory, buffer->address);
  if (write->place.region == 0) return false;
  message.may_be_written_ = true;
  copying_[{peer.world_rank(), rts.id}] = buffer;
  clear_when_due(message, peer, rts, write);
  return true;
}

void DeviceMessages::clear_when_due(ReceiveMessage& message, Peer& peer, const FrameHeader& rts,
                                    const std::shared_ptr<DeviceWrite>& write) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  message.state_ = ReceiveMessage::State::copying;
  message.expect_from(peer);
  cuda::Copies::Copy none;
  if (write) {
    none.follow = [this, buffer, write, from = peer.world_rank()](cuda::StreamHandle stream) {
      cuda::EventPool& events = device().events;
      if (engine_.device_peers().ends(from) || !events.can_record()) return false;
      engine_.device().follow(*buffer, stream);
      write->due = events.record(stream).value_or(cuda::kNoEvent);
      return true;
    };
  }
  const auto due = [this, &message, &peer, buffer, rts, write](const std::exception_ptr& failure) {
    if (write) copying_.erase({peer.world_rank(), rts.id});
    if (buffer->given_up || failure) {
      if (write) (void)device().events.give_back(write->due);
      peer.need_no_more(rts);
      if (!buffer->given_up) message.complete(error_of(failure, message));
      return;
    }
    if (write) peer.tell_of_device(encode_device_frame(*write));
    peer.clear(message, rts);
    if (write && write->due != cuda::kNoEvent)
      offers_[{peer.world_rank(), *peer.number_of(message)}] = {write->due, {}};
  };
  engine_.device().start(buffer, std::move(none), due);
}

void DeviceMessages::store(ReceiveMessage& message, std::size_t bytes) {
  if (bytes == 0) return message.complete();
  const auto block = std::move(message.device_->staging);
  const bool is_piece = bytes < message.status().bytes;
  store(message, {block, block->data()}, bytes, [is_piece, source = message.source_] {
    if (is_piece) source->taken(0);
  });
}

void DeviceMessages::store(ReceiveMessage& message, std::shared_ptr<const std::byte> from, std::size_t bytes,
                           std::function<void()> free) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  const std::span piece(from.get(), bytes);
  const std::size_t offset = message.arrived_;
  if (message.may_be_written_ && offset == 0) {
    engine_.device_peers().note_write(message.source_->world_rank(), false);
  }
  message.arrived_ += bytes;
  ++message.copying_;
  const bool all = message.missing_bytes() == 0;
  message.state_ = all ? ReceiveMessage::State::storing : ReceiveMessage::State::awaits_data;
  const auto ended = [&message, buffer, from = std::move(from),
                      free = std::move(free)](const std::exception_ptr& failure) {
    if (failure && !buffer->given_up) message.fail(error_of(failure, message));
    free();
    if (buffer->given_up) return;
    --message.copying_;
    if (message.copying_ == 0 && message.state_ == ReceiveMessage::State::storing) message.complete();
  };
  engine_.device().write(buffer, piece, message.status().source, ended, offset);
}

}  // namespace rondo::detail
