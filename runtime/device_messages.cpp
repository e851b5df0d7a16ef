#include "runtime/device_messages.hpp"

#include <utility>

#include <rondo/error.hpp>

#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

std::exception_ptr error_of(const std::exception_ptr& failure, const Message& message) {
  return std::make_exception_ptr(
      detail::error_of(failure, message.describe(), {message.group().rank(), message.peer_rank(), "", 0, 0, 0, {}}));
}

}  // namespace

RankDevice::Opened& DeviceMessages::device() const { return *engine_.device().opened(); }

// Sends.

void DeviceMessages::offer(SendMessage& message, int to) {
  DeviceOffer offer = offer_of(*message.device_, to);
  if (offer.place.region != 0) offers_[{to, message.header.id}] = offer.ready;
  offer.write_to(message.header);
}

DeviceOffer DeviceMessages::offer_of(const DeviceBuffer& buffer, int to) {
  const DevicePlace place = engine_.device_peers().expose(to, buffer.memory, buffer.address);
  if (place.region == 0) return {};
  try {
    const cuda::Current current(device().context);
    const auto ready = device().events.record(handle_of(buffer.stream));
    // All events in use: as many messages are on their way already.
    if (ready) return {.place = place, .ready = *ready};
  } catch (const cuda::CudaError& error) {
    engine_.device_peers().stage_instead(error.what());
  }
  return {};
}

void DeviceMessages::answered(int peer, std::uint32_t id) noexcept {
  const auto found = offers_.find({peer, id});
  if (found == offers_.end()) return;
  (void)device().events.give_back(found->second);
  offers_.erase(found);
}

void DeviceMessages::gone(int peer) {
  for (auto offer = offers_.lower_bound({peer, 0}); offer != offers_.end() && offer->first.first == peer;) {
    (void)device().events.give_back(offer->second);
    offer = offers_.erase(offer);
  }
}

void DeviceMessages::fetch(SendMessage& message) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  buffer->staging = engine_.device().stage(buffer->bytes);
  engine_.device().read(buffer, buffer->staging->data(), message.peer_rank(),
                        [&message, buffer](const std::exception_ptr& failure) {
                          if (buffer->given_up) return;
                          if (failure) return message.fail(error_of(failure, message));
                          message.peer_->send_fetched(message, std::span(buffer->staging->data(), buffer->bytes));
                        });
}

// Receives.

bool DeviceMessages::pull(ReceiveMessage& message, Peer& peer, const FrameHeader& rts) {
  const auto offer = DeviceOffer::of(rts);
  if (offer.place.region == 0) return false;
  if (offer.ready.index >= RankDevice::kEvents) {
    peer.closed("it spoke of an event that there is not");
    return true;
  }
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  DevicePeers& peers = engine_.device_peers();
  std::shared_ptr<cuda::ImportTable::Use> use;
  try {
    auto used = peers.map(peer.world_rank(), offer.place, rts.bytes);
    if (!used) return false;
    use = std::make_shared<cuda::ImportTable::Use>(std::move(*used));
  } catch (const cuda::RegionError& error) {
    peer.closed(error.what());
    return true;
  }
  message.state_ = ReceiveMessage::State::pulling;
  message.expect_from(peer);
  buffer->copy = device().copies.start(
      {.to = buffer->address,
       .from = use->address(),
       .bytes = static_cast<std::size_t>(rts.bytes),
       .peer = message.peer_rank(),
       .after = buffer->before,
       // Asked by the host: nobody knows what a device does that waits for a process which has died.
       .ready = [&peers, offer,
                 from = peer.world_rank()] { return !peers.ends(from) && peers.events(from).done(offer.ready); },
       .given_up = [buffer] { return buffer->given_up; },
       .ended =
           [&message, &peer, buffer, use, rts](const std::exception_ptr& failure) mutable {
             use.reset();
             peer.decline(rts);
             if (buffer->given_up) return;
             message.complete(failure ? error_of(failure, message) : nullptr);
           }});
  return true;
}

void DeviceMessages::store(ReceiveMessage& message) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  message.state_ = ReceiveMessage::State::storing;
  const std::size_t bytes = message.status().bytes;
  if (bytes == 0) return message.complete();
  engine_.device().write(buffer, std::span(buffer->staging->data(), bytes), message.status().source,
                         [&message, buffer](const std::exception_ptr& failure) {
                           if (buffer->given_up) return;
                           message.complete(failure ? error_of(failure, message) : nullptr);
                         });
}

}  // namespace rondo::detail
