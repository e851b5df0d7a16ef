#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "cuda/event_pool.hpp"
#include "cuda/region.hpp"
#include "runtime/rank_device.hpp"
#include "transport/frame.hpp"

namespace rondo::detail {

// What ranks of one host say to each other about the memory of their devices: the payload of FrameKind::device, and
// what an rts tells of a message that lies in it. A byte for which of them, then the struct, as it lies in memory.

/// Before the first offer. Whose events the tickets of offers speak of.
struct DeviceHello {
  std::int64_t process = 0;  ///< its pid: a process cannot open what is its own
  std::uint64_t word = 0;    ///< a random one of that process: in containers others may have the same pid
  cuda::Uuid device{};
  std::array<cuda::IpcEventHandle, RankDevice::kEvents> events{};
};

/// The owner ends a region; the other side closes it and answers.
struct DeviceUnmap {
  cuda::RegionId region = 0;
};
struct DeviceUnmapped {
  cuda::RegionId region = 0;
};

/// The sender leaves: the other side closes all that it has of it, and answers.
struct DeviceEnd {};
struct DeviceEnded {};

/// Where something lies for a rank that can map it. Region 0: nowhere.
struct DevicePlace {
  std::uint64_t offset = 0;
  cuda::RegionId region = 0;
  std::uint32_t ticket = 0;  ///< of an offer: see `Peer::still_offers`
};

/// Ahead of the cts for a message: the sender may as well write the payload where it belongs. Then it says so, instead
/// of sending the payload.
struct DeviceWrite {
  DevicePlace place;
  cuda::EventTicket due = cuda::kNoEvent;  ///< once this is done, where the receiver's stream had not come to its call
  std::uint32_t message = 0;               ///< its rts's id
  std::uint32_t unused = 0;
};
struct DeviceWritten {
  std::uint32_t receive = 0;  ///< the cts's number
};
/// The receiver has given the message up: what is not queued yet is not to be written.
struct DeviceWriteNoMore {
  std::uint32_t receive = 0;
};

/// A payload has been copied from where an rts said that it lay, and its ticket is not good any more. The sender says
/// by DeviceWritten that it had not taken it back, else cancels it.
struct DeviceCopied {
  std::uint64_t communicator = 0;
  std::uint32_t message = 0;  ///< the rts's id
  std::uint32_t receive = 0;  ///< what a cts's number would be
};

/// A wait for an event of the other side has been queued, or is not needed.
struct DeviceUsed {
  cuda::EventTicket ticket;
};

/// A stream here is to wait for the copy by which the other side ends a message: it shall say which event that is.
/// Then, if the message ended otherwise first, it need not any more.
struct DeviceAsk {
  std::uint32_t message = 0;  ///< the asking side's number of it: its rts's id, or its cts's number
};
struct DeviceAskNoMore {
  std::uint32_t message = 0;
};
struct DeviceQueued {
  std::uint32_t message = 0;
  cuda::EventTicket copied;
};

using DeviceFrame =
    std::variant<DeviceHello, cuda::RegionDescription, DeviceUnmap, DeviceUnmapped, DeviceEnd, DeviceEnded, DeviceUsed,
                 DeviceWrite, DeviceWritten, DeviceAsk, DeviceAskNoMore, DeviceQueued, DeviceCopied, DeviceWriteNoMore>;

constexpr std::size_t kLongestDeviceFrame = 1 + sizeof(DeviceHello);

template <typename Message>
std::vector<std::byte> encode_device_frame(const Message& message) {
  static_assert(std::is_trivially_copyable_v<Message>);
  std::vector<std::byte> bytes(1 + sizeof message);
  bytes[0] = static_cast<std::byte>(DeviceFrame(message).index());
  std::memcpy(bytes.data() + 1, &message, sizeof message);
  return bytes;
}

/// Where the payload of an rts lies. Travels in the second to fourth word of the fingerprint, which a point-to-point
/// message does not need.
struct DeviceOffer {
  DevicePlace place;
  cuda::EventTicket ready;  ///< the payload is there when this is done; kNoEvent: it is

  static DeviceOffer of(const FrameHeader& rts) noexcept {
    if (rts.fingerprint[0] != 0) return {};  // an address of the host's
    std::array<std::uint64_t, 3> words{};
    std::copy(rts.fingerprint.begin() + 1, rts.fingerprint.end(), words.begin());
    return std::bit_cast<DeviceOffer>(words);
  }
  void write_to(FrameHeader& rts) const noexcept {
    const auto words = std::bit_cast<std::array<std::uint64_t, 3>>(*this);
    rts.fingerprint[0] = 0;  // no address of the host's
    std::copy(words.begin(), words.end(), rts.fingerprint.begin() + 1);
  }
};
static_assert(sizeof(DeviceOffer) == 3 * sizeof(std::uint64_t));

}  // namespace rondo::detail
