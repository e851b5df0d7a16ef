#include "runtime/peer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/engine.hpp"
#include "transport/copy_long.hpp"
#include "transport/copy_short.hpp"

namespace rondo::detail {
namespace {

// A window lets at least this much through before it waits for credit.
constexpr std::uint64_t kLeastWindow = 4096;

// A collective's receive is posted soon, so that more is eager there, and chunks of pipelines are. What comes before it
// is copied once more, and a root that copies blocks long enough is overtaken by the leaves' next.
constexpr std::size_t kCollectiveLimits = 4;

// How often a receive looks for a message on its way before it waits for it; some microseconds.
constexpr int kLooks = 4000;

// Where an rts of a point-to-point message, which needs no fingerprint, tells what `Link::pull` takes, and which place
// among the buffers that the ranks of its communicator map (region 0: none).
enum PullWord : std::size_t { kPullAddress, kPullTicket, kPullRegion, kPullOffset };

// The answer to a longer one may be there before all of it has gone.
constexpr std::size_t kShortMessage = std::size_t{16} << 10;

std::uint32_t next_id(std::uint32_t& last) { return ++last == 0 ? ++last : last; }

}  // namespace

/// A frame that belongs to no message; reused once it is sent.
struct Peer::ControlFrame : Outgoing {
  explicit ControlFrame(Peer& peer) : owner(peer) {
    on_sent = [](Outgoing& frame) noexcept {
      auto& self = static_cast<ControlFrame&>(frame);
      self.owner.free_control_frames_.push_back(&self);
    };
  }
  Peer& owner;
  std::vector<std::byte> bytes;
};

Peer::Peer(Engine& engine, int world_rank)
    : engine_(engine),
      world_rank_(world_rank),
      on_other_core_(engine.on_other_core(world_rank)),
      window_(std::max<std::uint64_t>(
          engine.settings().unexpected_bytes / static_cast<std::uint64_t>(engine.settings().size), kLeastWindow)),
      credit_(window_),
      eager_limit_(engine.settings().eager_limit) {}

Peer::~Peer() = default;

void Peer::attach(std::unique_ptr<Link> link, std::string no_shared_memory) {
  link_ = std::move(link);
  pullable_ = link_->pull_from() > 0;
  if (pullable_) eager_limit_ = std::min(eager_limit_, link_->pull_from());
  no_shared_memory_ = std::move(no_shared_memory);
  connecting_ = false;
  engine_.connected(*this);
  while (!backlog_.empty()) link_->send(backlog_.pop());
}

void Peer::detach(const std::string& cause) {
  gone_ = true;
  connecting_ = false;
  cause_ = cause;
  engine_.device_messages().gone(world_rank_);
  engine_.device_peers().gone(world_rank_);
}

void Peer::leave(bool after_error) {
  if (!std::exchange(bye_sent_, true)) control({.kind = FrameKind::bye, .number = after_error ? 1U : 0U});
}

void Peer::transmit(Outgoing& frame) {
  if (link_) return link_->send(frame);
  if (gone_) return;
  backlog_.push(frame);
  if (connecting_) return;
  connecting_ = true;
  engine_.connect(*this);
}

Peer::ControlFrame& Peer::control_frame(const FrameHeader& header) {
  if (free_control_frames_.empty()) {
    control_frames_.push_back(std::make_unique<ControlFrame>(*this));
    free_control_frames_.reserve(control_frames_.size());
    free_control_frames_.push_back(control_frames_.back().get());
  }
  ControlFrame& frame = *free_control_frames_.back();
  free_control_frames_.pop_back();
  frame.header = header;
  frame.payload = {};
  return frame;
}

void Peer::tell_of_device(std::vector<std::byte> bytes) {
  if (gone_) return;
  ControlFrame& frame = control_frame({.kind = FrameKind::device, .bytes = bytes.size()});
  frame.bytes = std::move(bytes);
  frame.payload = frame.bytes;
  transmit(frame);
}

void Peer::control(const FrameHeader& header) {
  if (!gone_) transmit(control_frame(header));
}

// Sends.

void Peer::send(SendMessage& message) {
  if (gone_) {
    if (!engine_.suspected(*this)) message.group().member_left(message.peer_rank(), cause_);
    return;
  }
  const std::uint64_t cost = cost_of(message.header);
  if (cost <= credit_ && message.whole_.size() <= eager_limit(message)) {
    credit_ -= cost;
    if (message.device_) return announce(message);
    message.header.kind = FrameKind::eager;
    message.payload = message.whole_;
    message.state_ = SendMessage::State::in_link;
    asked_ = message.payload.size() <= kShortMessage;
    return transmit(message);
  }
  message.header.kind = FrameKind::rts;
  message.header.id = next_id(last_id_);
  if (message.device_) {
    engine_.device_messages().offer(message, world_rank_);
  } else if (link_ && !message.operation()) {
    offer(message);
  }
  awaiting_cts_.emplace_back(message.header.id, &message);
  message.expect_from(*this);
  message.state_ = SendMessage::State::in_link;
  transmit(message);
}

void Peer::announce(SendMessage& message) {
  message.header.id = next_id(last_id_);
  message.header.kind = FrameKind::late;
  message.state_ = SendMessage::State::copying;
  FrameHeader ahead = message.header;
  ahead.kind = FrameKind::announce;
  control(ahead);
  engine_.device_messages().bring_to_host(message);
}

bool Peer::send_now(EagerHeader header, std::span<const std::byte> payload) {
  const std::uint64_t cost = cost_of(payload.size());
  if (!link_ || gone_ || cost > credit_ || payload.size() > eager_limit_ || !link_->send_now(header, payload))
    return false;
  credit_ -= cost;
  return true;
}

// Two that copy a very long message through the link at the same time are sooner done where their cores are near each
// other, and take more than twice as long where they are not.
void Peer::offer(SendMessage& message) const {
  const auto whole = message.whole_;
  Team& neighbours = message.group().neighbours();
  const auto place = neighbours.commons.regions().find(whole.data(), whole.size(), neighbours.rank);
  const bool pullable = link_->pull_from() > 0 && whole.size() > link_->pull_from();
  const auto ticket = link_->pull_ticket();
  if (!ticket || (place.region == 0 && !pullable)) return;
  auto& words = message.header.fingerprint;
  words[kPullAddress] = reinterpret_cast<std::uint64_t>(whole.data());
  words[kPullTicket] = *ticket;
  words[kPullRegion] = place.region;
  words[kPullOffset] = place.offset;
}

std::size_t Peer::eager_limit(const SendMessage& message) const {
  return message.operation() ? kCollectiveLimits * engine_.settings().eager_limit : eager_limit_;
}

void Peer::send_from_host(SendMessage& message, std::span<const std::byte> payload) {
  message.payload = payload;
  message.state_ = SendMessage::State::in_link;
  transmit(message);
}

void Peer::take_back(SendMessage& message) {
  const FrameHeader& header = message.header;
  if (link_ && header.kind == FrameKind::rts) link_->void_tickets();
  if (message.state_ == SendMessage::State::in_pieces) engine_.device_pieces().take_back(message, *this);
  std::erase_if(awaiting_cts_, [&](const auto& entry) { return entry.second == &message; });
  if (message.state_ == SendMessage::State::in_link) {
    if (link_) {
      link_->release(message);
    } else {
      backlog_.replace(message, nullptr);
    }
    if (message.written > 0) return;  // the rest of it goes all the same
    if (header.kind == FrameKind::rts) engine_.device_messages().over(world_rank_, header.id);
    if (header.kind == FrameKind::eager) credit_ += cost_of(header);
  }
  // The receiver may wait for what will not come.
  if (header.kind == FrameKind::data) cancel(FrameKind::cancel, header.id, header.communicator);
  if (header.kind == FrameKind::late) cancel(FrameKind::recall, header.id, header.communicator);
}

void Peer::cancel(FrameKind kind, std::uint32_t id, std::uint64_t communicator) {
  control({.kind = kind, .communicator = communicator, .number = engine_.failed(communicator) ? 1U : 0U, .id = id});
}

// Receives.

Peer::Received Peer::receive_soon(EagerHeader wanted, bool any_tag, std::span<std::byte> buffer) {
  if (!link_ || gone_) return {};
  const auto found = link_->arrived(engine_.progress().habits().shares_core() ? 1 : kLooks);
  if (!found || !found->header.same_but_for_tag(wanted) || found->payload.size() > buffer.size()) return {};
  if (!any_tag && found->header.tag() != wanted.tag()) return {};
  const Received received{true, Tag{found->header.tag()}, found->payload.size()};
  copy_short(found->payload, buffer.data());
  link_->take_arrived();
  consumed(cost_of(received.bytes));
  return received;
}

void Peer::request(ReceiveMessage& receive, const FrameHeader& rts) {
  if (receive.device_ && engine_.device_messages().copy_offered(receive, *this, rts)) return;
  if (receive.device_ && rts.bytes > DevicePieces::kBytes) {
    return engine_.device_messages().clear_when_due(receive, *this, rts);
  }
  const bool offered = rts.context == FrameHeader::point_to_point && rts.fingerprint[kPullAddress] != 0 && link_;
  after_reading(receive, rts, offered ? read(receive, rts) : Link::Pulled::no);
}

Link::Pulled Peer::told(Link::Pulled pulled) {
  if (pulled == Link::Pulled::no && pullable_ && link_->pull_from() == 0) {
    pullable_ = false;
    eager_limit_ = engine_.settings().eager_limit;
    engine_.log().info("rank {}: {}, long messages from now on {}", world_rank_, link_->transport(),
                       link_->long_messages());
  }
  return pulled;
}

Link::Pulled Peer::read(ReceiveMessage& receive, const FrameHeader& rts) {
  const auto bytes = static_cast<std::size_t>(rts.bytes);
  const std::span place(receive.place(bytes), bytes);
  const auto& words = rts.fingerprint;
  Team& neighbours = receive.group().neighbours();
  const int sender = neighbours.place_of(receive.group().member(world_rank_));
  const auto mapped = neighbours.commons.regions().at({words[kPullRegion], words[kPullOffset]}, rts.bytes, sender);
  if (mapped) {
    copy_long({mapped.get(), place.size()}, place.data());
    return Link::Pulled::yes;
  }
  // The sender may be at reading what this rank has offered it, and is not asked for help then.
  const bool jointly = !engine_.settings().oversubscribed && awaiting_cts_.empty();
  return pull(words[kPullAddress], place, jointly);
}

void Peer::after_reading(ReceiveMessage& receive, const FrameHeader& rts, Link::Pulled pulled) {
  if (pulled == Link::Pulled::not_yet) {
    receive.state_ = ReceiveMessage::State::reading;
    receive.expect_from(*this);
    reading_ = {&receive, rts};
  } else if (pulled == Link::Pulled::yes && link_->good(rts.fingerprint[kPullTicket])) {
    need_no_more(rts);
    receive.landed(rts.bytes);
  } else {
    clear(receive, rts);
  }
}

std::size_t Peer::go_on_reading() {
  const Link::Pulled pulled = this->pulled();
  if (pulled == Link::Pulled::not_yet) return 0;
  const Reading ended = *std::exchange(reading_, std::nullopt);
  after_reading(*ended.receive, ended.rts, pulled);
  return 1;
}

std::uint32_t Peer::await_payload(ReceiveMessage& receive) {
  const std::uint32_t id = next_id(last_id_);
  receive.state_ = ReceiveMessage::State::awaits_data;
  receive.expect_from(*this);
  awaiting_data_.emplace_back(id, &receive);
  if (link_) link_->await_payload(true);
  return id;
}

void Peer::clear(ReceiveMessage& receive, const FrameHeader& rts) {
  const std::uint32_t id = await_payload(receive);
  const bool in_pieces = receive.device_ && rts.bytes > DevicePieces::kBytes;
  control({.kind = in_pieces ? FrameKind::cts_pieces : FrameKind::cts,
           .communicator = rts.communicator,
           .number = id,
           .id = rts.id});
}

void Peer::need_no_more(const FrameHeader& rts) { control({.kind = FrameKind::satisfied, .id = rts.id}); }

void Peer::refuse(const FrameHeader& rts) {
  if (engine_.ends_by_exception()) return;
  if (engine_.failed(rts.communicator)) return need_no_more(rts);
  control({.kind = FrameKind::unwanted, .id = rts.id});
}

void Peer::forget(ReceiveMessage& receive) {
  for (auto& entry : awaiting_data_) {
    if (entry.second != &receive) continue;
    entry.second = nullptr;
    if (receive.may_be_written_) tell_of_device(encode_device_frame(DeviceWriteNoMore{entry.first}));
  }
  for (Announced& announced : announced_) {
    if (announced.landing.receive == &receive) announced.landing.receive = nullptr;
  }
  if (reading_ && reading_->receive == &receive) {
    link_->give_up_pull();
    need_no_more(std::exchange(reading_, std::nullopt)->rts);
  }
  if (landing_.receive == &receive) {
    landing_.receive = nullptr;
    if (link_) link_->discard();
  }
}

void Peer::forget(Unexpected& message) {
  for (Announced& announced : announced_) {
    if (announced.landing.unexpected == &message) announced.landing.unexpected = nullptr;
  }
  if (landing_.unexpected == &message) {
    landing_.unexpected = nullptr;
    if (link_) link_->discard();
  }
}

void Peer::consumed(std::uint64_t cost) {
  consumed_ += cost;
  if (consumed_ < window_ / 4) return;
  control({.kind = FrameKind::credit, .bytes = consumed_});
  consumed_ = 0;
}

SendMessage* Peer::awaiting_cts(std::uint32_t id) const {
  const auto found =
      std::find_if(awaiting_cts_.begin(), awaiting_cts_.end(), [&](const auto& entry) { return entry.first == id; });
  return found == awaiting_cts_.end() ? nullptr : found->second;
}

void Peer::forget_cts(std::uint32_t id) {
  std::erase_if(awaiting_cts_, [&](const auto& entry) { return entry.first == id; });
}

ReceiveMessage* Peer::awaiting(std::uint32_t id) const {
  const auto found =
      std::find_if(awaiting_data_.begin(), awaiting_data_.end(), [&](const auto& entry) { return entry.first == id; });
  return found == awaiting_data_.end() ? nullptr : found->second;
}

std::optional<std::uint32_t> Peer::number_of(const ReceiveMessage& receive) const {
  const auto found = std::find_if(awaiting_data_.begin(), awaiting_data_.end(),
                                  [&](const auto& entry) { return entry.second == &receive; });
  return found == awaiting_data_.end() ? std::nullopt : std::optional(found->first);
}

ReceiveMessage* Peer::take_awaiting(std::uint32_t id) {
  engine_.device_messages().over(world_rank_, id);
  ReceiveMessage* const receive = awaiting(id);
  std::erase_if(awaiting_data_, [&](const auto& entry) { return entry.first == id; });
  if (link_ && awaiting_data_.empty()) link_->await_payload(false);
  return receive;
}

}  // namespace rondo::detail
