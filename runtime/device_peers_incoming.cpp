#include <algorithm>
#include <variant>

#include "runtime/device_peers.hpp"
#include "runtime/engine.hpp"

// What peers say of their devices.

namespace rondo::detail {
namespace {

/// Nothing: no rondo peer sends that.
template <std::size_t Kind = 0>
std::optional<DeviceFrame> decode(std::span<const std::byte> bytes) {
  if constexpr (Kind < std::variant_size_v<DeviceFrame>) {
    if (bytes.empty() || bytes[0] != static_cast<std::byte>(Kind)) return decode<Kind + 1>(bytes);
    std::variant_alternative_t<Kind, DeviceFrame> message{};
    if (bytes.size() != 1 + sizeof message) return std::nullopt;
    std::memcpy(&message, bytes.data() + 1, sizeof message);
    return message;
  } else {
    return std::nullopt;
  }
}

template <typename... Hear>
struct Each : Hear... {
  using Hear::operator()...;
};
template <typename... Hear>
Each(Hear...) -> Each<Hear...>;

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
  const int from = peer.world_rank();
  DeviceMessages& messages = engine_.device_messages();
  std::visit(Each{
                 [&](const DeviceHello& hello) {
                   if (remote.hello) throw cuda::RegionError("it introduced its device twice");
                   remote.hello = hello;
                 },
                 [&](const cuda::RegionDescription& region) {
                   remote.last_described = std::max(remote.last_described, region.id);
                   if (remote.imports) return remote.imports->announce(region);
                   remote.described.emplace(region.id, region);
                 },
                 [&](const DeviceUnmap& unmap) {
                   if (remote.imports) return remote.imports->unmap(unmap.region);
                   // Not mapped, or not any more since this rank leaves.
                   remote.described.erase(unmap.region);
                   peer.tell_of_device(encode_device_frame(DeviceUnmapped{unmap.region}));
                 },
                 [&](const DeviceUnmapped& unmapped) {
                   if (!engine_.device().opened()) throw cuda::RegionError("it closed a region that there is not");
                   device().exports.closed(from, unmapped.region);
                 },
                 [&](const DeviceEnd&) {
                   remote.ends = true;
                   if (!engine_.device().opened()) close(from, remote);
                 },
                 [&](const DeviceEnded&) { remote.told = false; },
                 [&](const DeviceUsed& used) {
                   const bool known = engine_.device().opened() && device().events.give_back(used.ticket);
                   if (!known) throw cuda::RegionError("it used an event that there is not");
                 },
                 [&](const DeviceWrite& write) { messages.may_write(peer, write); },
                 [&](const DeviceWritten& written) { peer.written(written.receive); },
                 [&](const DeviceAsk& ask) { messages.ask(peer, ask); },
                 [&](const DeviceAskNoMore& no_more) { messages.ask_no_more(from, no_more); },
                 [&](const DeviceQueued& queued) { messages.queued(peer, queued); },
                 [&](const DeviceCopied& copied) { peer.copied(copied.message, copied.receive, copied.communicator); },
                 [&](const DeviceWriteNoMore& unwanted) { messages.write_no_more(from, unwanted); },
             },
             frame);
}

void DevicePeers::gone(int world_rank) {
  const auto found = remotes_.find(world_rank);
  if (found == remotes_.end()) return;
  found->second.ends = true;
  found->second.told = false;
  if (engine_.device().opened()) device().exports.forget(world_rank);
}

}  // namespace rondo::detail
