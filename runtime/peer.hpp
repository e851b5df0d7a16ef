#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/group.hpp"
#include "runtime/message.hpp"
#include "transport/link.hpp"

namespace rondo::detail {

class Engine;

/// All that this rank knows of one other: the link, and the protocol on it.
///
/// Eager: header and payload at once, as long as the receiver has promised memory for it (the window); what the
/// receiver has consumed comes back as credit. Beyond that, and for long point-to-point messages, rendezvous: the
/// header asks (rts), the posted receive answers (cts), the payload goes straight to its place (data). Where the link
/// can pull, or the payload lies in a buffer that the receiver maps, the rts says where; the receiver reads it there
/// and answers that it needs no more; and so where it lies on a device (`DeviceMessages`). What it read counts if the
/// sender had not taken it back meanwhile, of which the ticket in the rts tells. A short message that lies there is
/// announced in its turn, and follows once it has been copied to the host (late): to the receiver an eager message that
/// is long in coming. Collectives know both sides' schedule and are eager up to a few times that length. So the stream
/// never stops for want of a receive, and memory stays bounded.
class Peer final : public Sink {
 public:
  Peer(Engine& engine, int world_rank);
  ~Peer() override;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int world_rank() const noexcept { return world_rank_; }
  bool connected() const noexcept { return link_ != nullptr; }
  bool gone() const noexcept { return gone_; }
  Link* link() const noexcept { return link_.get(); }
  const std::string& cause() const noexcept { return cause_; }
  /// Why there is no shared memory with it; empty: there is, or there is no link.
  const std::string& no_shared_memory() const noexcept { return no_shared_memory_; }

  /// The connection is made: what waited for it goes out.
  void attach(std::unique_ptr<Link> link, std::string no_shared_memory = {});
  /// No more frames to or from this peer.
  void detach(const std::string& cause);
  /// Sends `bye` behind everything else, once. After an error the others wait for the hub's word on what it was.
  void leave(bool after_error);

  std::size_t poll() { return link_->poll(*this) + (reading_ ? go_on_reading() : 0); }
  /// A poll may bring something that somebody waits for.
  bool awaited() const noexcept { return expected_ > 0 || (link_ && link_->wants_write()); }
  void expect(int change) noexcept { expected_ += change; }
  /// A short message has been sent to it, and nothing has come from it since.
  bool asked() const noexcept { return asked_; }
  /// See `Engine::on_other_core`.
  bool on_other_core() const noexcept { return on_other_core_; }

  /// Of its link.
  Link::Pulled pull(std::uint64_t address, std::span<std::byte> into, bool jointly) {
    return told(link_ ? link_->pull(address, into, jointly) : Link::Pulled::no);
  }
  Link::Pulled pulled() { return told(link_->pulled()); }
  void give_up_pull() noexcept { link_->give_up_pull(); }

  // For sends.
  void send(SendMessage& message);
  /// A point-to-point message that needs nobody's answer and no place in a queue, without an object for it. False: it
  /// is to be sent as a message.
  bool send_now(EagerHeader header, std::span<const std::byte> payload);
  void take_back(SendMessage& message);
  /// What lay on a device when its receiver was ready is here now.
  void send_from_host(SendMessage& message, std::span<const std::byte> payload);
  void send_piece(Outgoing& piece) { transmit(piece); }

  // For receives.
  /// What fits into registers of a Status.
  struct Received {
    bool there = false;
    Tag tag{};
    std::size_t bytes = 0;
  };
  /// A point-to-point message that is the next to come from this peer, and soon. Not there: it is to be received as a
  /// message, which also finds what is wrong with it. No receive is posted, and nothing has come early.
  Received receive_soon(EagerHeader wanted, bool any_tag, std::span<std::byte> buffer);
  void request(ReceiveMessage& receive, const FrameHeader& rts);
  /// The payload may come.
  void clear(ReceiveMessage& receive, const FrameHeader& rts);
  void need_no_more(const FrameHeader& rts);
  /// Nobody will receive it: its communicator is gone here. Of one that has failed the sender hears the cause itself.
  void refuse(const FrameHeader& rts);
  void forget(ReceiveMessage& receive);
  /// By which number the sender knows it, once it has been told that the payload may come.
  std::optional<std::uint32_t> number_of(const ReceiveMessage& receive) const;
  /// The place of a payload that is still to come is gone.
  void forget(Unexpected& message);
  /// What has come in the slot `number` - 1 is out of the way; 0: the oldest piece in no slot.
  void taken(std::uint32_t number) { control({.kind = FrameKind::taken, .number = number}); }
  void tell_of_slots(std::uint32_t number) { control({.kind = FrameKind::slots, .number = number}); }
  /// What an offer of the memory of a device tells. Like the link's own, where that has any.
  std::uint32_t device_ticket() const noexcept;
  /// No message that the other side has offered since then has been taken back: what a device has copied till now was
  /// what it offered. False also where nobody tells.
  bool still_offers(std::uint32_t ticket) const noexcept;
  /// Its payload has been copied, and the sender is asked whether it had still offered it.
  void confirm(ReceiveMessage& receive, const FrameHeader& rts);
  /// The receiver asks that.
  void copied(std::uint32_t id, std::uint32_t receiver_id, std::uint64_t communicator);
  /// The sender has written the payload into the memory of the device that it belongs to.
  void written(std::uint32_t receive_id);
  /// A frame about devices, in order with everything else.
  void tell_of_device(std::vector<std::byte> bytes);
  /// Memory of an eager message is free again.
  void consumed(const FrameHeader& header) { consumed(cost_of(header)); }

  // What the link brings.
  void deliver(const FrameHeader& header, std::span<const std::byte> payload) override;
  bool expects(const FrameHeader& header) const override;
  std::byte* accept(const FrameHeader& header) override;
  void arrived(const FrameHeader& header) override;
  void passed(Descriptor descriptor, std::uint64_t number) override;
  void closed(const std::string& cause) override;
  /// What it said cannot be, in words about `it`: nothing that comes from it is believed any more.
  void reject(const std::string& fault);

  /// Bytes that the other side promised memory for, and what of that is free; what of ours is free and not yet told.
  std::uint64_t window() const noexcept { return window_; }
  std::uint64_t credit() const noexcept { return credit_; }
  std::uint64_t untold() const noexcept { return consumed_; }
  /// It would go at once, had the receiver consumed what was sent before.
  bool held_back(const SendMessage& message) const {
    return message.header.kind == FrameKind::rts && message.whole_.size() <= eager_limit(message) &&
           cost_of(message.header) > credit_ && cost_of(message.header) <= window_;
  }

  /// What it takes to keep a message beside its payload.
  static constexpr std::uint64_t kFrameCost = 256;
  /// What an eager message takes of the window.
  static constexpr std::uint64_t cost_of(const FrameHeader& header) noexcept { return cost_of(header.bytes); }
  static constexpr std::uint64_t cost_of(std::uint64_t payload_bytes) noexcept { return payload_bytes + kFrameCost; }

 private:
  struct ControlFrame;
  /// Where the payload of the current frame goes: a receive, the memory for unexpected messages, or nowhere.
  struct Landing {
    ReceiveMessage* receive = nullptr;
    Unexpected* unexpected = nullptr;
  };

  /// A message of which the sender still writes a part to its place.
  struct Reading {
    ReceiveMessage* receive;
    FrameHeader rts;
  };

  /// A message that comes late, and where its payload goes.
  struct Announced {
    FrameHeader header;
    Landing landing;
  };

  void consumed(std::uint64_t cost);
  void transmit(Outgoing& frame);
  void announce(SendMessage& message);
  std::size_t eager_limit(const SendMessage& message) const;
  void offer(SendMessage& message) const;
  Link::Pulled read(ReceiveMessage& receive, const FrameHeader& rts);
  void after_reading(ReceiveMessage& receive, const FrameHeader& rts, Link::Pulled pulled);
  std::size_t go_on_reading();
  Link::Pulled told(Link::Pulled pulled);
  ControlFrame& control_frame(const FrameHeader& header);
  void cancel(FrameKind kind, std::uint32_t id, std::uint64_t communicator);
  void control(const FrameHeader& header);
  Landing land(const FrameHeader& header);
  Landing land_eager(const FrameHeader& header);
  Landing land_late(const FrameHeader& header);
  bool keeps(Unexpected& message, std::size_t bytes);
  void finish(const FrameHeader& header, const Landing& landing);
  void handle(const FrameHeader& header);
  void arrived_rts(const FrameHeader& header);
  void arrived_answer(const FrameHeader& header);
  void arrived_announce(const FrameHeader& header);
  void arrived_in_slot(const FrameHeader& header);
  void recalled(const FrameHeader& header);
  bool is_told_why(const FrameHeader& given_up) const;
  void give_up(ReceiveMessage& receive) const;
  std::uint32_t await_payload(ReceiveMessage& receive);
  SendMessage* awaiting_cts(std::uint32_t id) const;
  void forget_cts(std::uint32_t id);
  ReceiveMessage* awaiting(std::uint32_t id) const;
  ReceiveMessage* take_awaiting(std::uint32_t id);
  std::optional<Announced> take_announced(std::uint32_t id);

  Engine& engine_;
  const int world_rank_;
  const bool on_other_core_;
  std::unique_ptr<Link> link_;
  bool connecting_ = false;
  bool bye_sent_ = false;
  bool bye_received_ = false;
  bool gone_ = false;
  bool pullable_ = false;  // as was told last
  std::string cause_;
  std::string no_shared_memory_;
  int expected_ = 0;
  bool asked_ = false;

  FrameQueue backlog_;  // until the link is there
  std::uint64_t window_;
  std::uint64_t credit_;
  std::size_t eager_limit_;     // of point to point
  std::uint64_t consumed_ = 0;  // not yet told
  std::uint32_t last_id_ = 0;
  std::vector<std::pair<std::uint32_t, SendMessage*>> awaiting_cts_;
  std::vector<std::pair<std::uint32_t, ReceiveMessage*>> awaiting_data_;  // nullptr: taken back, to be thrown away
  std::vector<std::unique_ptr<ControlFrame>> control_frames_;
  std::vector<ControlFrame*> free_control_frames_;
  std::vector<Announced> announced_;
  std::optional<Reading> reading_;
  Landing landing_;
  std::vector<std::byte> inbox_;  // of a frame about devices
};

}  // namespace rondo::detail
