#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace rondo::detail {

enum class FrameKind : std::uint8_t {
  eager = 1,  ///< header and payload of a message
  announce,   ///< header of a message whose payload of `bytes` comes unasked as soon as it can, under the sender's `id`
  late,       ///< that header again, and that payload
  recall,     ///< the sender gave up what it announced under `id`; `number` as in a cancel
  rts,        ///< request to send: a message of `bytes` waits at the sender under `id`
  cts,        ///< clear to send: the receiver's buffer for the sender's `id` is ready under `number`, in `communicator`
  cts_pieces,  ///< the same; the payload is to come in pieces
  satisfied,   ///< the receiver needs no more of the sender's `id`: it has it, or it failed and all know why
  unwanted,    ///< nobody will receive the sender's `id`
  data,        ///< payload of the message whose cts named `id`
  cancel,      ///< the sender gave up the message that the receiver awaits under `id`; `number` 1: because of a failure
  credit,      ///< the receiver has consumed `bytes` more of what was sent eagerly
  bye,         ///< the last frame of a peer that leaves in order; `number` is 1 when it leaves after an error
  device,      ///< about the memory of devices, between processes of one host: see device_frames.hpp
  piece,       ///< in place of data: a part of that payload, in order; `number` 1: the last
  slots,       ///< about memory of both for pieces: `number` 0: it has been passed, 1: it is mapped, 2: it cannot be
  in_slot,     ///< in place of a piece: it lies in the slot `tag` of that memory
  taken,       ///< what the slot `number` - 1 had is where it belongs, or thrown away; 0: the oldest piece in no slot
};

/// Every frame starts with this, little-endian on the wire:
///
///   0 version  1 kind  2 type  3 context   4 tag (u32)       8 communicator (u64)
///   16 number (u32)    20 id (u32)        24 bytes (u64)    32 fingerprint of the call (32 bytes)
struct FrameHeader {
  static constexpr std::uint8_t kVersion = 3;
  enum Context : std::uint8_t { point_to_point, collective };

  std::uint8_t version = kVersion;
  FrameKind kind = FrameKind::eager;
  std::uint8_t type = 0;  ///< element type of a point-to-point message; 0: bytes
  std::uint8_t context = point_to_point;
  std::uint32_t tag = 0;  ///< user's tag, or the lane of a collective
  std::uint64_t communicator = 0;
  std::uint32_t number = 0;  ///< of the operation on its communicator; in a cts the receiver's id
  std::uint32_t id = 0;      ///< of a rendezvous, given by whoever has to find it again
  std::uint64_t bytes = 0;   ///< of the payload that follows (eager, late, data, piece, device), or that is spoken of
  std::array<std::uint64_t, 4> fingerprint{};

  /// As a rondo of this version writes it, as far as these two tell: what follows is another's, or garbage.
  bool is_ours() const noexcept { return version == kVersion && context <= collective; }

  /// Payload bytes that follow this header on the wire.
  std::uint64_t payload_bytes() const noexcept {
    switch (kind) {
      case FrameKind::eager:
      case FrameKind::late:
      case FrameKind::data:
      case FrameKind::piece:
      case FrameKind::device: return bytes;
      default: return 0;
    }
  }
};

/// The header of an eager point-to-point message in the words that it has on the wire, but for its length: it stays in
/// registers on its way to a link's memory and from there.
struct EagerHeader {
  std::uint64_t first = 0;  ///< version, kind, type, context, tag
  std::uint64_t communicator = 0;

  static EagerHeader of(std::uint8_t type, std::uint32_t tag, std::uint64_t communicator) noexcept {
    return {std::uint64_t{FrameHeader::kVersion} | static_cast<std::uint64_t>(FrameKind::eager) << 8 |
                std::uint64_t{type} << 16 | std::uint64_t{FrameHeader::point_to_point} << 24 |
                std::uint64_t{tag} << kTagShift,
            communicator};
  }
  std::uint32_t tag() const noexcept { return static_cast<std::uint32_t>(first >> kTagShift); }
  bool same_but_for_tag(EagerHeader other) const noexcept {
    return communicator == other.communicator &&
           static_cast<std::uint32_t>(first) == static_cast<std::uint32_t>(other.first);
  }

  static constexpr int kTagShift = 32;
};

static_assert(sizeof(FrameHeader) == 64 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian, and so is every host rondo knows");

}  // namespace rondo::detail
