#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/device_peers.hpp"

namespace rondo::detail {

class ReceiveMessage;
class Message;
class SendMessage;

/// What a driver's failure is to a message.
std::exception_ptr error_of(const std::exception_ptr& failure, const Message& message);

/// Messages that begin or end in the memory of a device. The receiver maps the sender's memory and copies from it where
/// both are processes of one host whose device reaches the other's (over PCIe the sender maps the receiver's, and
/// copies there); anything else goes through the host: the sender copies to it when the receiver is ready, the receiver
/// from it when all is there, or the next piece of a long one (`DevicePieces`). So either side may be a device.
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
  /// The receiver of an rts has said where the payload may be written.
  void may_write(int peer, const DeviceWrite& write) { writes_[{peer, write.message}] = write; }
  /// Its receiver is ready: writes the payload there, or else fetches it.
  void begin(SendMessage& message, Peer& peer, std::uint32_t rts_id);
  /// Copies the payload to the host, and sends it from there.
  void fetch(SendMessage& message);

  // Receives.
  /// Copies out of the sender's memory, or lets the sender write. False: the payload is to come by the link.
  bool pull(ReceiveMessage& message, Peer& peer, const FrameHeader& rts);
  /// A long payload may come, in pieces, once the stream has come to the call.
  void clear_when_due(ReceiveMessage& message, Peer& peer, const FrameHeader& rts,
                      const std::optional<DeviceWrite>& write = {});
  /// Copies the bytes that came last, which are in the staging memory, to the device.
  void store(ReceiveMessage& message, std::size_t bytes);
  /// The same of bytes that lie elsewhere, until `free` is called, whatever became of the message.
  void store(ReceiveMessage& message, std::shared_ptr<const std::byte> from, std::size_t bytes,
             std::function<void()> free);

  void gone(int peer);

 private:
  /// There is one.
  RankDevice::Opened& device() const;
  DeviceOffer offer_of(const DeviceBuffer& buffer, int to);
  bool write(SendMessage& message, Peer& peer, const DeviceWrite& where);
  bool let_write(ReceiveMessage& message, Peer& peer, const FrameHeader& rts);

  Engine& engine_;
  std::map<std::pair<int, std::uint32_t>, cuda::EventTicket> offers_;  ///< of this rank, by the receiver and the rts
  std::map<std::pair<int, std::uint32_t>, DeviceWrite> writes_;        ///< and what was answered
};

}  // namespace rondo::detail
