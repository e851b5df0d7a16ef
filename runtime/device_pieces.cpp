#include "runtime/device_pieces.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "cuda/staging.hpp"
#include "runtime/engine.hpp"
#include "transport/shared_memory.hpp"

namespace rondo::detail {
namespace {

// What is said of slots.
constexpr std::uint32_t kPassed = 0, kMapped = 1, kNotMapped = 2;

// Of the memory that a rank passes; those of communicators' memory begin at the other end.
std::uint64_t passed_by(int world_rank) { return ~static_cast<std::uint64_t>(world_rank); }

}  // namespace

/// A slot for each piece that is on its way from one rank to another of its host.
class PieceSlots {
 public:
  static constexpr std::size_t kBytes = DevicePieces::kAhead * DevicePieces::kBytes;

  explicit PieceSlots(SharedMemory memory) : memory_(std::move(memory)) { memory_.close_descriptor(); }

  /// Pinned once there is a device.
  std::byte* at(std::size_t slot, RankDevice* device) {
    if (device && device->opened() && !pinned_) pinned_ = device->pin(std::span(memory_.data(), kBytes));
    return memory_.data() + slot * DevicePieces::kBytes;
  }
  /// One for this piece as long as that lives: a device that hangs may still write there when nobody wants it any more.
  /// kAhead: there is none.
  std::size_t take(const std::shared_ptr<void>& piece) {
    const auto free = std::find_if(pieces_.begin(), pieces_.end(), [](const auto& one) { return one.expired(); });
    if (free != pieces_.end()) *free = piece;
    return static_cast<std::size_t>(free - pieces_.begin());
  }

 private:
  SharedMemory memory_;
  std::array<std::weak_ptr<void>, DevicePieces::kAhead> pieces_;
  std::unique_ptr<cuda::Pinned> pinned_;
};

struct DevicePieces::Piece : Outgoing {
  bool in_slot() const noexcept { return header.kind == FrameKind::in_slot; }

  SendMessage* message = nullptr;  ///< whose it is as long as that needs to hear of it: not sent, not taken back
  std::shared_ptr<void> held;      ///< where it lies
  bool last = false;
  bool ready = false;        ///< on the host
  bool handed_over = false;  ///< to the link
};

DevicePieces::~DevicePieces() {
  if (!engine_.device().stuck()) return;
  // What the device still may do needs them.
  for (auto& [rank, way] : ways_) RankDevice::leave_to_driver(std::move(way.slots));
  for (auto& [rank, slots] : theirs_) RankDevice::leave_to_driver(std::move(slots));
}

// What there is between two ranks.

void DevicePieces::offer_slots(Way& way, Peer& peer) {
  way.medium = Medium::link;
  if (!peer.no_shared_memory().empty()) return;
  try {
    SharedMemory memory = SharedMemory::create(PieceSlots::kBytes);
    if (!peer.link()->pass(memory.descriptor(), passed_by(engine_.settings().rank))) return;
    way.slots = std::make_shared<PieceSlots>(std::move(memory));
  } catch (const std::system_error& error) {
    engine_.log().info("{} bytes of shared memory are not to be had: {}", PieceSlots::kBytes, error.what());
    return;
  }
  way.medium = Medium::slots_offered;
  peer.tell_of_slots(kPassed);
}

bool DevicePieces::hear_of_slots(Peer& peer, std::uint32_t number) {
  if (number == kPassed) {
    // It has come ahead of this, on another way.
    peer.link()->check(peer);
    auto descriptor = engine_.take_passed(passed_by(peer.world_rank()));
    if (!descriptor || theirs_.contains(peer.world_rank())) return false;
    try {
      SharedMemory memory = SharedMemory::map(std::move(*descriptor), PieceSlots::kBytes);
      theirs_.emplace(peer.world_rank(), std::make_shared<PieceSlots>(std::move(memory)));
      peer.tell_of_slots(kMapped);
    } catch (const std::system_error& error) {
      engine_.log().info("{} bytes of shared memory were not mapped: {}", PieceSlots::kBytes, error.what());
      peer.tell_of_slots(kNotMapped);
    }
    return true;
  }
  const auto found = ways_.find(peer.world_rank());
  if (number > kNotMapped || found == ways_.end() || found->second.medium != Medium::slots_offered) return false;
  Way& way = found->second;
  way.medium = number == kMapped ? Medium::slots : Medium::link;
  if (way.medium == Medium::link) way.slots.reset();
  go_on(way, peer);
  return true;
}

std::shared_ptr<const std::byte> DevicePieces::slot_of(const Peer& peer, std::uint32_t number) {
  const auto found = theirs_.find(peer.world_rank());
  if (found == theirs_.end() || number >= kAhead) return nullptr;
  return {found->second, found->second->at(number, &engine_.device())};
}

// Pieces.

void DevicePieces::send(SendMessage& message, Peer& peer) {
  message.state_ = SendMessage::State::in_pieces;
  Way& way = ways_[peer.world_rank()];
  way.waiting.push_back({&message});
  if (way.medium == Medium::unknown) offer_slots(way, peer);
  go_on(way, peer);
}

bool DevicePieces::taken(Peer& peer, std::uint32_t number) {
  const auto found = ways_.find(peer.world_rank());
  if (found == ways_.end()) return false;
  auto& under_way = found->second.under_way;
  const auto piece = std::find_if(under_way.begin(), under_way.end(), [&](const auto& one) {
    const bool said_of = one->in_slot() ? number == one->header.tag + 1 : number == 0;
    return said_of && one->handed_over && one->message == nullptr;
  });
  if (piece == under_way.end()) return false;
  under_way.erase(piece);
  go_on(found->second, peer);
  return true;
}

void DevicePieces::take_back(const SendMessage& message, Peer& peer) {
  Way& way = ways_[peer.world_rank()];
  std::erase_if(way.waiting, [&](const Begun& begun) { return begun.message == &message; });
  std::erase_if(way.under_way, [&](const std::shared_ptr<Piece>& piece) {
    if (piece->message != &message) return false;
    piece->message = nullptr;
    if (!piece->handed_over) return true;
    if (peer.link()) peer.link()->release(*piece);
    return piece->written == 0;  // else the rest of it goes all the same
  });
  go_on(way, peer);
}

bool DevicePieces::all_begun(const SendMessage& message, const Peer& peer) const {
  const auto& waiting = ways_.at(peer.world_rank()).waiting;
  return std::none_of(waiting.begin(), waiting.end(), [&](const Begun& begun) { return begun.message == &message; });
}

void DevicePieces::go_on(Way& way, Peer& peer) {
  if (peer.gone() || way.medium == Medium::slots_offered) return;
  while (way.under_way.size() < kAhead && !way.waiting.empty()) begin(way, peer);
  hand_over(way, peer);
}

void DevicePieces::begin(Way& way, Peer& peer) {
  auto& [message, begun] = way.waiting.front();
  const std::size_t offset = begun;
  const std::size_t bytes = std::min(kBytes, message->whole_.size() - offset);
  begun += bytes;
  const auto piece = std::make_shared<Piece>();
  piece->message = message;
  piece->last = begun == message->whole_.size();
  piece->header = message->header;
  piece->header.kind = FrameKind::piece;
  piece->header.number = piece->last ? 1 : 0;
  piece->header.bytes = bytes;
  piece->on_sent = [](Outgoing& frame) noexcept {
    auto& sent = static_cast<Piece&>(frame);
    SendMessage* const whose = std::exchange(sent.message, nullptr);
    if (sent.last) whose->complete();
  };
  if (piece->last) way.waiting.pop_front();
  const std::shared_ptr<DeviceBuffer> buffer = piece->message->device_;
  const auto whole = piece->message->whole_.subspan(offset, bytes);
  std::byte* place = nullptr;
  const std::size_t slot = way.medium == Medium::slots ? way.slots->take(piece) : kAhead;
  if (slot < kAhead) {
    piece->header.kind = FrameKind::in_slot;
    piece->header.tag = static_cast<std::uint32_t>(slot);
    piece->held = way.slots;
    place = way.slots->at(slot, buffer ? &engine_.device() : nullptr);
  } else if (buffer) {
    const auto block = engine_.device().stage(bytes);
    piece->held = block;
    place = block->data();
    piece->payload = std::span(place, bytes);
  } else {
    piece->payload = whole;
  }
  way.under_way.push_back(piece);
  if (!buffer) {
    if (place != nullptr) std::memcpy(place, whole.data(), bytes);
    piece->ready = true;
    return;
  }
  const auto ended = [this, &way, &peer, piece](const std::exception_ptr& failure) {
    piece->ready = true;
    if (piece->message != nullptr && failure) piece->message->fail(error_of(failure, *piece->message));
    go_on(way, peer);
  };
  engine_.device().read(buffer, std::span(place, bytes), piece->message->peer_rank(), ended, offset);
}

// A copy may be found to be over before one that ended earlier.
void DevicePieces::hand_over(Way& way, Peer& peer) {
  for (const auto& piece : way.under_way) {
    if (!piece->ready) return;
    if (!std::exchange(piece->handed_over, true)) peer.send_piece(*piece);
  }
}

}  // namespace rondo::detail
