#include "runtime/device_messages.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <rondo/error.hpp>

#include "cuda/device.hpp"
#include "runtime/engine.hpp"

namespace rondo::detail {
namespace {

std::exception_ptr error_of(const std::exception_ptr& failure, const Message& message) {
  return std::make_exception_ptr(
      detail::error_of(failure, message.describe(), {message.group().rank(), message.peer_rank(), "", 0, 0, 0, {}}));
}

}  // namespace

DeviceMessages::~DeviceMessages() {
  if (engine_.device().opened()) device().copies.stop();
}

RankDevice::Opened& DeviceMessages::device() const { return *engine_.device().opened(); }

void DeviceMessages::stage_instead(const std::string& why) {
  if (said_.insert(why).second) engine_.log().warn("device memory goes through the host: {}", why);
}

// Sends.

bool DeviceMessages::shares_host(int world_rank) const {
  const Engine::Settings& settings = engine_.settings();
  if (settings.hosts.empty() || world_rank == settings.rank) return false;
  const int here = settings.hosts[static_cast<std::size_t>(settings.rank)];
  return here >= 0 && settings.hosts[static_cast<std::size_t>(world_rank)] == here;
}

void DeviceMessages::offer(SendMessage& message, Peer& peer) {
  const DeviceBuffer& buffer = *message.device_;
  DeviceOffer offer;
  if (shares_host(peer.world_rank())) {
    if (buffer.memory.exportable) {
      expose(buffer, peer, offer);
    } else {
      stage_instead(buffer.memory.kind == cuda::PointerFacts::Kind::managed
                        ? "it is managed, wanted memory of cuMemAlloc"
                        : buffer.memory.why_not);
    }
  }
  if (offer.region != 0) offers_[{peer.world_rank(), message.header.id}] = offer.ready;
  offer.write_to(message.header);
}

// Everything that the offer rests on travels before it.
void DeviceMessages::expose(const DeviceBuffer& buffer, Peer& peer, DeviceOffer& offer) {
  const cuda::Current current(device().context);
  Remote& remote = remotes_[peer.world_rank()];
  try {
    // All events in use: as many messages are on their way already.
    const auto ready = device().events.record(handle_of(buffer.stream));
    if (!ready) return;
    try {
      auto exposure = device().exports.expose(peer.world_rank(), buffer.memory, buffer.address);
      send_unmaps(exposure.unmap);
      if (!std::exchange(remote.told, true)) {
        DeviceHello hello{.process = ::getpid(), .device = device().uuid, .events = {}};
        std::copy(device().events.handles().begin(), device().events.handles().end(), hello.events.begin());
        peer.tell_of_device(encode_device_frame(hello));
      }
      if (exposure.description) peer.tell_of_device(encode_device_frame(*exposure.description));
      offer = {.offset = exposure.offset, .ready = *ready, .region = exposure.region};
    } catch (...) {
      (void)device().events.give_back(*ready);
      throw;
    }
  } catch (const cuda::CudaError& error) {
    stage_instead(error.what());
  }
}

void DeviceMessages::send_unmaps(const std::vector<cuda::ExportRegistry::Unmap>& unmaps) {
  for (const auto& unmap : unmaps) {
    engine_.peer(unmap.peer).tell_of_device(encode_device_frame(DeviceUnmap{unmap.region}));
  }
}

void DeviceMessages::answered(int peer, std::uint32_t id) noexcept {
  const auto found = offers_.find({peer, id});
  if (found == offers_.end()) return;
  (void)device().events.give_back(found->second);
  offers_.erase(found);
}

void DeviceMessages::fetch(SendMessage& message) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  buffer->staging = engine_.device().stage(buffer->bytes);
  engine_.device().read(buffer, buffer->staging->data(), message.peer_rank(),
                        [&message, buffer](const std::exception_ptr& failure) {
                          if (buffer->given_up) return;
                          if (failure) return message.fail(error_of(failure, message));
                          message.peer_->send_fetched(message, std::span(buffer->staging->data(), buffer->bytes));
                        });
}

// Receives.

bool DeviceMessages::pull(ReceiveMessage& message, Peer& peer, const FrameHeader& rts) {
  const auto offer = DeviceOffer::of(rts);
  if (offer.region == 0) return false;
  if (offer.ready.index >= RankDevice::kEvents) {
    peer.closed("it spoke of an event that there is not");
    return true;
  }
  Remote* const remote = open(peer.world_rank());
  if (remote == nullptr) return false;
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  std::shared_ptr<cuda::ImportTable::Use> use;
  try {
    auto used = remote->imports->use(offer.region, offer.offset, rts.bytes);
    if (!used) return false;  // what lies there now is still being closed
    use = std::make_shared<cuda::ImportTable::Use>(std::move(*used));
  } catch (const cuda::CudaError& error) {
    stage_instead(error.what());
    return false;
  } catch (const cuda::RegionError& error) {
    peer.closed(error.what());
    return true;
  }
  message.state_ = ReceiveMessage::State::pulling;
  message.expect_from(peer);
  buffer->copy = device().copies.start(
      {.to = buffer->address,
       .from = use->address(),
       .bytes = static_cast<std::size_t>(rts.bytes),
       .peer = message.peer_rank(),
       .after = buffer->before,
       // Asked by the host: nobody knows what a device does that waits for a process which has died.
       .ready = [remote, offer] { return !remote->ends && remote->events->done(offer.ready); },
       .given_up = [buffer] { return buffer->given_up; },
       .ended =
           [&message, &peer, buffer, use, rts](const std::exception_ptr& failure) mutable {
             use.reset();
             peer.decline(rts);
             if (buffer->given_up) return;
             message.complete(failure ? error_of(failure, message) : nullptr);
           }});
  return true;
}

void DeviceMessages::store(ReceiveMessage& message) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  message.state_ = ReceiveMessage::State::storing;
  const std::size_t bytes = message.status().bytes;
  if (bytes == 0) return message.complete();
  engine_.device().write(buffer, std::span(buffer->staging->data(), bytes), message.status().source,
                         [&message, buffer](const std::exception_ptr& failure) {
                           if (buffer->given_up) return;
                           message.complete(failure ? error_of(failure, message) : nullptr);
                         });
}

DeviceMessages::Remote* DeviceMessages::open(int world_rank) {
  const auto found = remotes_.find(world_rank);
  if (found == remotes_.end() || !found->second.hello || found->second.refused) return nullptr;
  Remote& remote = found->second;
  if (remote.imports) return &remote;
  std::string why;
  try {
    why = why_unreachable(*remote.hello);
    if (why.empty()) {
      remote.events = std::make_unique<cuda::ImportedEvents>(device().context, remote.hello->events, world_rank);
      remote.imports = std::make_unique<cuda::ImportTable>(device().context, world_rank);
      for (const auto& [id, region] : std::exchange(remote.described, {})) remote.imports->announce(region);
      return &remote;
    }
  } catch (const cuda::CudaError& error) {
    why = error.what();
  } catch (const cuda::RegionError& error) {
    why = error.what();
  }
  remote.refused = true;
  stage_instead(fmt::format("rank {}: {}", world_rank, why));
  return nullptr;
}

std::string DeviceMessages::why_unreachable(const DeviceHello& hello) const {
  if (hello.process == ::getpid()) return "it is a thread of the same process";
  if (hello.device == device().uuid) return {};
  const cuda::Driver& driver = device().context.driver();
  const auto theirs = cuda::find_device(driver, hello.device);
  if (!theirs) return "this process does not see its device (CUDA_VISIBLE_DEVICES)";
  if (!cuda::reaches(driver, device().context.device(), *theirs)) {
    return fmt::format("device {} does not reach device {}", device().context.device(), *theirs);
  }
  return {};
}

// What peers say.

void DeviceMessages::hear(Peer& peer, std::span<const std::byte> frame) {
  const auto decoded = decode_device_frame(frame);
  if (!decoded) return peer.closed("it sent a frame of an unknown kind");
  try {
    take(peer, remotes_[peer.world_rank()], *decoded);
  } catch (const cuda::RegionError& error) {
    peer.closed(error.what());
  }
}

void DeviceMessages::take(Peer& peer, Remote& remote, const DeviceFrame& frame) {
  if (const auto* hello = std::get_if<DeviceHello>(&frame)) {
    if (remote.hello) throw cuda::RegionError("it introduced its device twice");
    remote.hello = *hello;
  } else if (const auto* region = std::get_if<cuda::RegionDescription>(&frame)) {
    if (remote.imports) return remote.imports->announce(*region);
    remote.described.emplace(region->id, *region);
  } else if (const auto* unmap = std::get_if<DeviceUnmap>(&frame)) {
    if (remote.imports) return remote.imports->unmap(unmap->region);
    if (remote.described.erase(unmap->region) == 0) throw cuda::RegionError("it ended a region that there is not");
    peer.tell_of_device(encode_device_frame(DeviceUnmapped{unmap->region}));
  } else if (const auto* unmapped = std::get_if<DeviceUnmapped>(&frame)) {
    if (!engine_.device().opened()) throw cuda::RegionError("it closed a region that there is not");
    device().exports.closed(peer.world_rank(), unmapped->region);
  } else if (std::holds_alternative<DeviceEnd>(frame)) {
    remote.ends = true;
    if (!engine_.device().opened()) close(peer.world_rank(), remote);
  } else {
    remote.told = false;
  }
}

void DeviceMessages::gone(int peer) {
  const auto found = remotes_.find(peer);
  if (found == remotes_.end()) return;
  found->second.ends = true;
  found->second.told = false;
  if (!engine_.device().opened()) return;
  device().exports.forget(peer);
  for (auto offer = offers_.lower_bound({peer, 0}); offer != offers_.end() && offer->first.first == peer;) {
    (void)device().events.give_back(offer->second);
    offer = offers_.erase(offer);
  }
}

std::size_t DeviceMessages::poll() {
  if (!engine_.device().opened()) return 0;
  const std::size_t moved = device().copies.poll();
  for (auto& [rank, remote] : remotes_) {
    if (remote.imports) {
      for (const cuda::RegionId region : remote.imports->take_closed()) {
        engine_.peer(rank).tell_of_device(encode_device_frame(DeviceUnmapped{region}));
      }
    }
    if (remote.ends && device().copies.idle()) close(rank, remote);
  }
  return moved;
}

bool DeviceMessages::busy() const noexcept { return engine_.device().opened() != nullptr && !device().copies.idle(); }

void DeviceMessages::close(int world_rank, Remote& remote) {
  remote.ends = false;
  remote.imports.reset();
  remote.events.reset();
  remote.hello.reset();
  remote.described.clear();
  engine_.peer(world_rank).tell_of_device(encode_device_frame(DeviceEnded{}));
}

void DeviceMessages::leave() {
  if (!engine_.device().opened()) return;
  device().copies.stop();
  for (auto& [rank, remote] : remotes_) {
    remote.imports.reset();
    remote.events.reset();
    if (remote.told) engine_.peer(rank).tell_of_device(encode_device_frame(DeviceEnd{}));
  }
}

bool DeviceMessages::left() const noexcept {
  return std::none_of(remotes_.begin(), remotes_.end(), [](const auto& remote) { return remote.second.told; });
}

// Memory that goes.

void DeviceMessages::retire(const RankDevice::Allocation& allocation) {
  cuda::PointerFacts memory;
  memory.base = allocation.address;
  memory.bytes = allocation.bytes;
  send_unmaps(device().exports.retire(memory));
}

bool DeviceMessages::is_closed(const RankDevice::Allocation& allocation) const {
  return device().exports.is_closed(allocation.address, allocation.bytes);
}

}  // namespace rondo::detail
