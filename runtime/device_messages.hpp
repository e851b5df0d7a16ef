#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rondo/device_span.hpp>

#include "cuda/copies.hpp"
#include "cuda/event_pool.hpp"
#include "cuda/export_registry.hpp"
#include "cuda/import_table.hpp"
#include "cuda/pointer.hpp"
#include "cuda/staging.hpp"
#include "runtime/device_frames.hpp"

namespace rondo::detail {

class Engine;
class Peer;
class ReceiveMessage;
class SendMessage;

/// The memory of one message on a device, from the call to the end of what moves it.
struct DeviceBuffer {
  cuda::Address address = 0;
  std::size_t bytes = 0;
  cuda::PointerFacts memory;
  CudaStream stream = nullptr;
  cuda::EventHandle before = nullptr;             ///< all that the caller's stream had been given before the call
  std::shared_ptr<cuda::Staging::Block> staging;  ///< for a payload that goes through the host
  std::shared_ptr<cuda::Copies::Running> copy;
  bool given_up = false;  ///< the message is gone: what still runs has nobody to tell
};

/// Messages that begin or end in the memory of a device. The receiver maps the sender's memory and copies from it where
/// both are processes of one host whose device reaches the other's; anything else goes through the host: the sender
/// copies to it when the receiver is ready, the receiver from it when all is there. So either side may be a device.
///
/// One for an engine, under its lock. Nothing of CUDA is loaded before the first such message.
class DeviceMessages {
 public:
  explicit DeviceMessages(Engine& engine) : engine_(engine) {}
  ~DeviceMessages();
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;

  /// What the caller gave; nothing for no bytes. Throws Error, naming the operation.
  std::shared_ptr<DeviceBuffer> begin(const DeviceBytes& bytes, const char* operation);

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

  /// Memory of the host for copies. Only after `begin`.
  std::shared_ptr<cuda::Staging::Block> stage(std::size_t bytes);

  // Of whole buffers. What was queued on the caller's stream before is done first. `peer` is for errors, which are
  // CudaErrors; what is copied from or to must live until `ended`, which owns it best.
  using Ended = std::function<void(const std::exception_ptr&)>;
  void read(const std::shared_ptr<DeviceBuffer>& buffer, std::byte* to, int peer, Ended ended);
  void write(const std::shared_ptr<DeviceBuffer>& buffer, std::span<const std::byte> from, int peer, Ended ended);

  /// What is queued on the stream from here on comes after the buffer's last copy. False: that is not queued yet.
  bool order(const DeviceBuffer& buffer, CudaStream stream);

  // Memory.
  struct Allocation {
    cuda::Address address = 0;
    std::size_t bytes = 0;
  };
  /// Of a size that others map without mapping anything else. Throws Error.
  Allocation allocate(std::size_t bytes);
  /// The allocation in which this lies. Throws Error, naming the operation.
  Allocation find(const DeviceBytes& bytes, const char* operation);
  /// Others shall close it; `is_closed` tells when they have.
  void retire(const Allocation& allocation);
  bool is_closed(const Allocation& allocation) const;
  void free(const Allocation& allocation) noexcept;

  // Peers.
  void hear(Peer& peer, std::span<const std::byte> frame);
  void gone(int peer);

  /// Never blocks, never throws. Returns how much moved.
  std::size_t poll();
  /// A device is at work: nobody rings when it is done.
  bool busy() const noexcept { return device_ && !device_->copies.idle(); }
  /// This rank leaves: nothing of the others' stays mapped, and they are asked to close what they have of ours.
  void leave();
  /// They have, all that are still there.
  bool left() const noexcept;

 private:
  /// The device of this rank: that of the first memory it speaks of.
  struct Device {
    Device(const cuda::Driver& driver, cuda::Device number);

    cuda::PrimaryContext context;
    cuda::Uuid uuid{};
    cuda::LocalEvents local_events;
    cuda::EventPool events;
    cuda::ExportRegistry exports;
    cuda::Staging staging;
    cuda::Copies copies;
  };

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

  Device& device_for(const cuda::PointerFacts& memory, const cuda::Driver& driver, const char* operation);
  cuda::Device first_device(const cuda::Driver& driver) const;
  cuda::PointerFacts classify(const DeviceBytes& bytes, const cuda::Driver& driver, const char* operation);
  bool shares_host(int world_rank) const;
  void expose(const DeviceBuffer& buffer, Peer& peer, DeviceOffer& offer);
  void send_unmaps(const std::vector<cuda::ExportRegistry::Unmap>& unmaps);
  Remote* open(int world_rank);
  std::string why_unreachable(const DeviceHello& hello) const;
  void close(int world_rank, Remote& remote);
  void take(Peer& peer, Remote& remote, const DeviceFrame& frame);
  void stage_instead(const std::string& why);

  Engine& engine_;
  std::unique_ptr<Device> device_;
  std::map<int, Remote> remotes_;
  std::map<std::pair<int, std::uint32_t>, cuda::EventTicket> offers_;
  std::set<std::string> said_;  ///< reasons for staging that the log has
};

}  // namespace rondo::detail
