#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/event_pool.hpp"
#include "cuda/import_table.hpp"
#include "runtime/device_frames.hpp"
#include "runtime/rank_device.hpp"

namespace rondo::detail {

class Engine;
class Peer;
class ReceiveMessage;
class SendMessage;

/// Messages that begin or end in the memory of a device. The receiver maps the sender's memory and copies from it where
/// both are processes of one host whose device reaches the other's; anything else goes through the host: the sender
/// copies to it when the receiver is ready, the receiver from it when all is there. So either side may be a device.
///
/// One for an engine, under its lock, about its `RankDevice`.
class DeviceMessages {
 public:
  explicit DeviceMessages(Engine& engine) : engine_(engine) {}
  ~DeviceMessages();
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;

  // Sends.
  /// Says in the rts where the payload lies, where the peer may be able to map it.
  void offer(SendMessage& message, Peer& peer);
  /// The peer has answered that rts, in whatever way.
  void answered(int peer, std::uint32_t id) noexcept;
  /// Copies the payload to the host and sends it from there.
  void fetch(SendMessage& message);

  // Receives.
  /// Copies out of the sender's memory. False: the payload is to come by the link.
  bool pull(ReceiveMessage& message, Peer& peer, const FrameHeader& rts);
  /// Copies the payload, which is in the staging memory, to the device.
  void store(ReceiveMessage& message);

  // Memory that is to go.
  /// Others shall close this allocation; `is_closed` tells when they have.
  void retire(const RankDevice::Allocation& allocation);
  bool is_closed(const RankDevice::Allocation& allocation) const;

  // Peers.
  void hear(Peer& peer, std::span<const std::byte> frame);
  void gone(int peer);

  /// Never blocks, never throws. Returns how much moved.
  std::size_t poll();
  /// The device is at work: nobody rings when it is done.
  bool busy() const noexcept;
  /// This rank leaves: nothing of the others' stays mapped, and they are asked to close what they have of ours.
  void leave();
  /// They have, all that are still there.
  bool left() const noexcept;

 private:
  /// What another rank has told of its device.
  struct Remote {
    std::optional<DeviceHello> hello;
    std::map<cuda::RegionId, cuda::RegionDescription> described;  ///< before there are imports
    std::unique_ptr<cuda::ImportedEvents> events;
    std::unique_ptr<cuda::ImportTable> imports;
    bool told = false;     ///< it has our hello, and may have opened what that speaks of
    bool refused = false;  ///< it cannot be reached, which has been logged
    bool ends = false;     ///< what we have of it is to be closed
  };

  /// There is one.
  RankDevice::Opened& device() const;
  bool shares_host(int world_rank) const;
  void expose(const DeviceBuffer& buffer, Peer& peer, DeviceOffer& offer);
  void send_unmaps(const std::vector<cuda::ExportRegistry::Unmap>& unmaps);
  Remote* open(int world_rank);
  std::string why_unreachable(const DeviceHello& hello) const;
  void close(int world_rank, Remote& remote);
  void take(Peer& peer, Remote& remote, const DeviceFrame& frame);
  void stage_instead(const std::string& why);

  Engine& engine_;
  std::map<int, Remote> remotes_;
  std::map<std::pair<int, std::uint32_t>, cuda::EventTicket> offers_;
  std::set<std::string> said_;  ///< reasons for staging that the log has
};

}  // namespace rondo::detail
