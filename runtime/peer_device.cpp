// Payloads that lie in the memory of devices, where one side reads or writes that of the other.

#include "runtime/engine.hpp"
#include "runtime/peer.hpp"

namespace rondo::detail {

// Before there is a link nothing has been taken back on it.
std::uint32_t Peer::device_ticket() const noexcept {
  return link_ ? static_cast<std::uint32_t>(link_->pull_ticket().value_or(0)) : 0;
}

bool Peer::still_offers(std::uint32_t ticket) const noexcept {
  return link_ && link_->pull_ticket() && link_->good(ticket);
}

void Peer::confirm(ReceiveMessage& receive, const FrameHeader& rts) {
  if (gone_) return give_up(receive);
  receive.arrived_ = 0;
  receive.may_be_written_ = true;  // as it has been
  tell_of_device(encode_device_frame(DeviceCopied{rts.communicator, rts.id, await_payload(receive)}));
}

void Peer::copied(std::uint32_t id, std::uint32_t receiver_id, std::uint64_t communicator) {
  const bool offered = engine_.device_messages().is_offered(world_rank_, id);
  engine_.device_messages().over(world_rank_, id);
  SendMessage* const message = awaiting_cts(id);
  if (!message) return cancel(FrameKind::cancel, receiver_id, communicator);
  if (!offered || message->state_ != SendMessage::State::awaits_cts) {
    return reject("it copied what it had not been offered");
  }
  forget_cts(id);
  tell_of_device(encode_device_frame(DeviceWritten{receiver_id}));
  message->complete();
}

void Peer::written(std::uint32_t receive_id) {
  ReceiveMessage* const receive = awaiting(receive_id);
  // While pieces of it are on their way to the device, it is not over.
  if (receive && (!receive->may_be_written_ || receive->arrived_ > 0))
    return reject("it wrote where it was not to write");
  if (!take_awaiting(receive_id)) return;
  engine_.device_peers().note_write(world_rank_, true);
  receive->complete();
}

}  // namespace rondo::detail
