#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "runtime/device_peers.hpp"

namespace rondo::detail {

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
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;

  // Sends.
  /// Says in the rts where the payload lies, where that rank of the world may be able to map it.
  void offer(SendMessage& message, int to);
  /// The peer has answered that rts, in whatever way.
  void answered(int peer, std::uint32_t id) noexcept;
  /// Copies the payload to the host and sends it from there.
  void fetch(SendMessage& message);

  // Receives.
  /// Copies out of the sender's memory. False: the payload is to come by the link.
  bool pull(ReceiveMessage& message, Peer& peer, const FrameHeader& rts);
  /// Copies the payload, which is in the staging memory, to the device.
  void store(ReceiveMessage& message);

  void gone(int peer);

 private:
  /// There is one.
  RankDevice::Opened& device() const;
  DeviceOffer offer_of(const DeviceBuffer& buffer, int to);

  Engine& engine_;
  std::map<std::pair<int, std::uint32_t>, cuda::EventTicket> offers_;
};

}  // namespace rondo::detail
