#include <algorithm>
#include <variant>

#include "runtime/device_peers.hpp"
#include "runtime/engine.hpp"

// What peers say of their devices.

namespace rondo::detail {
namespace {

/// Nothing: no rondo peer sends that.
std::optional<DeviceFrame> decode(std::span<const std::byte> bytes) {
  std::optional<DeviceFrame> decoded;
  const auto read = [&]<typename Message>(std::size_t kind, Message message) {
    if (bytes.size() != 1 + sizeof message || bytes[0] != static_cast<std::byte>(kind)) return;
    std::memcpy(&message, bytes.data() + 1, sizeof message);
    decoded = message;
  };
  read(0, DeviceHello{});
  read(1, cuda::RegionDescription{});
  read(2, DeviceUnmap{});
  read(3, DeviceUnmapped{});
  read(4, DeviceEnd{});
  read(5, DeviceEnded{});
  read(6, DeviceUsed{});
  read(7, DeviceWrite{});
  read(8, DeviceWritten{});
  read(9, DeviceAsk{});
  read(10, DeviceAskNoMore{});
  read(11, DeviceQueued{});
  read(12, DeviceCopied{});
  read(13, DeviceWriteNoMore{});
  return decoded;
}

}  // namespace

void DevicePeers::hear(Peer& peer, std::span<const std::byte> frame) {
  const auto decoded = decode(frame);
  if (!decoded) return peer.reject("it sent a frame of an unknown kind");
  try {
    take(peer, remotes_[peer.world_rank()], *decoded);
  } catch (const cuda::RegionError& error) {
    peer.reject(error.what());
  }
}

void DevicePeers::take(Peer& peer, Remote& remote, const DeviceFrame& frame) {
  if (const auto* hello = std::get_if<DeviceHello>(&frame)) {
    if (remote.hello) throw cuda::RegionError("it introduced its device twice");
    remote.hello = *hello;
  } else if (const auto* region = std::get_if<cuda::RegionDescription>(&frame)) {
    remote.last_described = std::max(remote.last_described, region->id);
    if (remote.imports) return remote.imports->announce(*region);
    remote.described.emplace(region->id, *region);
  } else if (const auto* unmap = std::get_if<DeviceUnmap>(&frame)) {
    if (remote.imports) return remote.imports->unmap(unmap->region);
    // Not mapped, or not any more since this rank leaves.
    remote.described.erase(unmap->region);
    peer.tell_of_device(encode_device_frame(DeviceUnmapped{unmap->region}));
  } else if (const auto* unmapped = std::get_if<DeviceUnmapped>(&frame)) {
    if (!engine_.device().opened()) throw cuda::RegionError("it closed a region that there is not");
    device().exports.closed(peer.world_rank(), unmapped->region);
  } else if (std::holds_alternative<DeviceEnd>(frame)) {
    remote.ends = true;
    if (!engine_.device().opened()) close(peer.world_rank(), remote);
  } else if (const auto* write = std::get_if<DeviceWrite>(&frame)) {
    engine_.device_messages().may_write(peer, *write);
  } else if (const auto* written = std::get_if<DeviceWritten>(&frame)) {
    peer.written(written->receive);
  } else if (const auto* ask = std::get_if<DeviceAsk>(&frame)) {
    engine_.device_messages().ask(peer, *ask);
  } else if (const auto* no_more = std::get_if<DeviceAskNoMore>(&frame)) {
    engine_.device_messages().ask_no_more(peer.world_rank(), *no_more);
  } else if (const auto* queued = std::get_if<DeviceQueued>(&frame)) {
    engine_.device_messages().queued(peer, *queued);
  } else if (const auto* unwanted = std::get_if<DeviceWriteNoMore>(&frame)) {
    engine_.device_messages().write_no_more(peer.world_rank(), *unwanted);
  } else if (const auto* copied = std::get_if<DeviceCopied>(&frame)) {
    peer.copied(copied->message, copied->receive, copied->communicator);
  } else if (const auto* used = std::get_if<DeviceUsed>(&frame)) {
    const bool known = engine_.device().opened() && device().events.give_back(used->ticket);
    if (!known) throw cuda::RegionError("it used an event that there is not");
  } else {
    remote.told = false;
  }
}

void DevicePeers::gone(int world_rank) {
  const auto found = remotes_.find(world_rank);
  if (found == remotes_.end()) return;
  found->second.ends = true;
  found->second.told = false;
  if (engine_.device().opened()) device().exports.forget(world_rank);
}

}  // namespace rondo::detail
