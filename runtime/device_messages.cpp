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

cuda::StreamHandle handle_of(CudaStream stream) { return reinterpret_cast<cuda::StreamHandle>(stream); }
cuda::Address address_of(const void* data) {
  return static_cast<cuda::Address>(reinterpret_cast<std::uintptr_t>(data));
}

/// A failure of the driver as users see it.
std::exception_ptr error_of(const std::exception_ptr& failure, const Message& message) {
  try {
    std::rethrow_exception(failure);
  } catch (const cuda::CudaError& error) {
    return std::make_exception_ptr(Error(Errc::cuda, fmt::format("{}: {}", message.describe(), error.what()),
                                         {message.group().rank(), message.peer_rank(), "", 0, 0, error.bytes(), {}}));
  }
}

}  // namespace

DeviceMessages::~DeviceMessages() {
  if (device_) device_->copies.stop();
}

DeviceMessages::Device::Device(const cuda::Driver& driver, cuda::Device number)
    : context(driver, number),
      local_events(context),
      events(context, DeviceHello::kEvents),
      exports(driver),
      staging(context),
      copies(context, local_events) {
  driver.must(driver.cuDeviceGetUuid, &uuid, number);
}

// What callers give.

std::shared_ptr<DeviceBuffer> DeviceMessages::begin(const DeviceBytes& bytes, const char* operation) {
  if (bytes.size == 0) return nullptr;
  const cuda::DriverSearch& search = cuda::driver();
  if (!search.driver) {
    throw Error(Errc::cuda, fmt::format("{}: there is no CUDA driver: {}", operation, search.reason));
  }
  try {
    std::shared_ptr<DeviceBuffer> buffer(new DeviceBuffer, [this](DeviceBuffer* over) {
      if (over->before != nullptr) device_->local_events.give_back(over->before);
      delete over;
    });
    buffer->memory = classify(bytes, *search.driver, operation);
    Device& device = device_for(buffer->memory, *search.driver, operation);
    const cuda::Current current(device.context);
    buffer->address = address_of(bytes.data);
    buffer->bytes = bytes.size;
    buffer->stream = bytes.stream;
    buffer->before = device.local_events.record(handle_of(bytes.stream));
    return buffer;
  } catch (const cuda::CudaError& error) {
    throw Error(Errc::cuda, fmt::format("{} of {} bytes at {:#x}: {}", operation, bytes.size, address_of(bytes.data),
                                        error.what()));
  }
}

cuda::PointerFacts DeviceMessages::classify(const DeviceBytes& bytes, const cuda::Driver& driver,
                                            const char* operation) {
  cuda::ContextHandle users = nullptr;
  driver.must(driver.cuCtxGetCurrent, &users);
  std::optional<cuda::PrimaryContext> first;
  std::optional<cuda::Current> current;
  if (device_) {
    current.emplace(device_->context);
  } else if (users == nullptr) {
    cuda::Device number = 0;
    driver.must(driver.cuDeviceGet, &number, 0);
    current.emplace(first.emplace(driver, number));
  }
  const cuda::PointerFacts memory = cuda::classify(driver, address_of(bytes.data));
  if (memory.kind == cuda::PointerFacts::Kind::host) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("{}: got a device_span of {} bytes at {:#x}, which is memory of the host: wanted memory of a "
                    "device, or a std::span",
                    operation, bytes.size, address_of(bytes.data)));
  }
  const cuda::Address end = memory.base + memory.bytes;
  if (memory.kind == cuda::PointerFacts::Kind::device && end - address_of(bytes.data) < bytes.size) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: got {} bytes at {:#x}, wanted at most {}: there the allocation ends", operation,
                            bytes.size, address_of(bytes.data), end - address_of(bytes.data)));
  }
  return memory;
}

DeviceMessages::Device& DeviceMessages::device_for(const cuda::PointerFacts& memory, const cuda::Driver& driver,
                                                   const char* operation) {
  if (!device_) device_ = std::make_unique<Device>(driver, memory.device);
  if (memory.kind == cuda::PointerFacts::Kind::device && memory.device != device_->context.device()) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: got memory of device {}, wanted that of device {}: a rank uses one device", operation,
                            memory.device, device_->context.device()));
  }
  return *device_;
}

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
  const cuda::Current current(device_->context);
  Remote& remote = remotes_[peer.world_rank()];
  try {
    // All events in use: as many messages are on their way already.
    const auto ready = device_->events.record(handle_of(buffer.stream));
    if (!ready) return;
    try {
      auto exposure = device_->exports.expose(peer.world_rank(), buffer.memory, buffer.address);
      send_unmaps(exposure.unmap);
      if (!std::exchange(remote.told, true)) {
        DeviceHello hello{.process = ::getpid(), .device = device_->uuid, .events = {}};
        std::copy(device_->events.handles().begin(), device_->events.handles().end(), hello.events.begin());
        peer.tell_of_device(encode_device_frame(hello));
      }
      if (exposure.description) peer.tell_of_device(encode_device_frame(*exposure.description));
      offer = {.offset = exposure.offset, .ready = *ready, .region = exposure.region};
    } catch (...) {
      (void)device_->events.give_back(*ready);
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
  (void)device_->events.give_back(found->second);
  offers_.erase(found);
}

void DeviceMessages::fetch(SendMessage& message) {
  const std::shared_ptr<DeviceBuffer> buffer = message.device_;
  buffer->staging = stage(buffer->bytes);
  read(buffer, buffer->staging->data(), message.peer_rank(), [&message, buffer](const std::exception_ptr& failure) {
    if (buffer->given_up) return;
    if (failure) return message.fail(error_of(failure, message));
    message.peer_->send_fetched(message, std::span(buffer->staging->data(), buffer->bytes));
  });
}

std::shared_ptr<cuda::Staging::Block> DeviceMessages::stage(std::size_t bytes) {
  return std::make_shared<cuda::Staging::Block>(device_->staging.take(bytes));
}

// Where memory could not be pinned the host waits for the copy: it is not queued before the caller's stream is there.

void DeviceMessages::read(const std::shared_ptr<DeviceBuffer>& buffer, std::byte* to, int peer, Ended ended) {
  buffer->copy = device_->copies.start({.to_host = to,
                                        .from = buffer->address,
                                        .bytes = buffer->bytes,
                                        .peer = peer,
                                        .ready = [this, buffer] { return device_->local_events.done(buffer->before); },
                                        .given_up = [buffer] { return buffer->given_up; },
                                        .ended = std::move(ended)});
}

void DeviceMessages::write(const std::shared_ptr<DeviceBuffer>& buffer, std::span<const std::byte> from, int peer,
                           Ended ended) {
  buffer->copy = device_->copies.start({.to = buffer->address,
                                        .from_host = from.data(),
                                        .bytes = from.size(),
                                        .peer = peer,
                                        .ready = [this, buffer] { return device_->local_events.done(buffer->before); },
                                        .given_up = [buffer] { return buffer->given_up; },
                                        .ended = std::move(ended)});
}

// Receives.

bool DeviceMessages::pull(ReceiveMessage& message, Peer& peer, const FrameHeader& rts) {
  const auto offer = DeviceOffer::of(rts);
  if (offer.region == 0) return false;
  if (offer.ready.index >= DeviceHello::kEvents) {
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
  buffer->copy = device_->copies.start(
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
  write(buffer, std::span(buffer->staging->data(), bytes), message.status().source,
        [&message, buffer](const std::exception_ptr& failure) {
          if (buffer->given_up) return;
          message.complete(failure ? error_of(failure, message) : nullptr);
        });
}

bool DeviceMessages::order(const DeviceBuffer& buffer, CudaStream stream) {
  try {
    return buffer.copy && device_->copies.order(*buffer.copy, handle_of(stream));
  } catch (const cuda::CudaError& error) {
    throw Error(Errc::cuda, fmt::format("wait_on: {}", error.what()));
  }
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
      remote.events = std::make_unique<cuda::ImportedEvents>(device_->context, remote.hello->events, world_rank);
      remote.imports = std::make_unique<cuda::ImportTable>(device_->context, world_rank);
      for (const auto& [id, region] : std::exchange(remote.described, {})) remote.imports->announce(region);
      return &remote;
    }
  } catch (const cuda::CudaError& error) {
    why = error.what();
  }
  remote.refused = true;
  stage_instead(fmt::format("rank {}: {}", world_rank, why));
  return nullptr;
}

std::string DeviceMessages::why_unreachable(const DeviceHello& hello) const {
  if (hello.process == ::getpid()) return "it is a thread of the same process";
  if (hello.device == device_->uuid) return {};
  const cuda::Driver& driver = device_->context.driver();
  const auto theirs = cuda::find_device(driver, hello.device);
  if (!theirs) return "this process does not see its device (CUDA_VISIBLE_DEVICES)";
  if (!cuda::reaches(driver, device_->context.device(), *theirs)) {
    return fmt::format("device {} does not reach device {}", device_->context.device(), *theirs);
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
    if (!device_) throw cuda::RegionError("it closed a region that there is not");
    device_->exports.closed(peer.world_rank(), unmapped->region);
  } else if (std::holds_alternative<DeviceEnd>(frame)) {
    remote.ends = true;
    if (!device_) close(peer.world_rank(), remote);
  } else {
    remote.told = false;
  }
}

void DeviceMessages::gone(int peer) {
  const auto found = remotes_.find(peer);
  if (found == remotes_.end()) return;
  found->second.ends = true;
  found->second.told = false;
  if (!device_) return;
  device_->exports.forget(peer);
  for (auto offer = offers_.lower_bound({peer, 0}); offer != offers_.end() && offer->first.first == peer;) {
    (void)device_->events.give_back(offer->second);
    offer = offers_.erase(offer);
  }
}

std::size_t DeviceMessages::poll() {
  if (!device_) return 0;
  const std::size_t moved = device_->copies.poll();
  for (auto& [rank, remote] : remotes_) {
    if (remote.imports) {
      for (const cuda::RegionId region : remote.imports->take_closed()) {
        engine_.peer(rank).tell_of_device(encode_device_frame(DeviceUnmapped{region}));
      }
    }
    if (remote.ends && device_->copies.idle()) close(rank, remote);
  }
  return moved;
}

void DeviceMessages::close(int world_rank, Remote& remote) {
  remote.ends = false;
  remote.imports.reset();
  remote.events.reset();
  remote.hello.reset();
  remote.described.clear();
  engine_.peer(world_rank).tell_of_device(encode_device_frame(DeviceEnded{}));
}

void DeviceMessages::leave() {
  if (!device_) return;
  device_->copies.stop();
  for (auto& [rank, remote] : remotes_) {
    remote.imports.reset();
    remote.events.reset();
    if (remote.told) engine_.peer(rank).tell_of_device(encode_device_frame(DeviceEnd{}));
  }
}

bool DeviceMessages::left() const noexcept {
  return std::none_of(remotes_.begin(), remotes_.end(), [](const auto& remote) { return remote.second.told; });
}

// Memory.

// As the launcher has numbered the ranks of this host.
cuda::Device DeviceMessages::first_device(const cuda::Driver& driver) const {
  int count = 0;
  driver.must(driver.cuDeviceGetCount, &count);
  cuda::Device number = 0;
  driver.must(driver.cuDeviceGet, &number, engine_.settings().local_rank % count);
  return number;
}

DeviceMessages::Allocation DeviceMessages::allocate(std::size_t bytes) {
  // The driver shares whole blocks of this size.
  constexpr std::size_t kBlock = std::size_t{2} << 20;
  const cuda::DriverSearch& search = cuda::driver();
  if (!search.driver) throw Error(Errc::cuda, fmt::format("there is no CUDA driver: {}", search.reason));
  const cuda::Driver& driver = *search.driver;
  Allocation allocation;
  allocation.bytes = std::max<std::size_t>((bytes + kBlock - 1) / kBlock, 1) * kBlock;
  try {
    if (!device_) device_ = std::make_unique<Device>(driver, first_device(driver));
    const cuda::Current current(device_->context);
    driver.must({.peer = -1, .bytes = allocation.bytes}, driver.cuMemAlloc, &allocation.address, allocation.bytes);
  } catch (const cuda::CudaError& error) {
    throw Error(Errc::cuda, error.what());
  }
  return allocation;
}

DeviceMessages::Allocation DeviceMessages::find(const DeviceBytes& bytes, const char* operation) {
  const cuda::DriverSearch& search = cuda::driver();
  if (!search.driver) throw Error(Errc::cuda, fmt::format("{}: there is no CUDA driver: {}", operation, search.reason));
  try {
    const cuda::PointerFacts memory = classify(bytes, *search.driver, operation);
    device_for(memory, *search.driver, operation);
    return {memory.base, memory.bytes};
  } catch (const cuda::CudaError& error) {
    throw Error(Errc::cuda, fmt::format("{}: {}", operation, error.what()));
  }
}

void DeviceMessages::retire(const Allocation& allocation) {
  cuda::PointerFacts memory;
  memory.base = allocation.address;
  memory.bytes = allocation.bytes;
  send_unmaps(device_->exports.retire(memory));
}

bool DeviceMessages::is_closed(const Allocation& allocation) const {
  return device_->exports.is_closed(allocation.address, allocation.bytes);
}

void DeviceMessages::free(const Allocation& allocation) noexcept {
  try {
    const cuda::Current current(device_->context);
    const cuda::Driver& driver = device_->context.driver();
    driver.must(driver.cuMemFree, allocation.address);
  } catch (const cuda::CudaError& error) {
    engine_.log().warn("{} bytes of the device were not freed: {}", allocation.bytes, error.what());
  }
}

}  // namespace rondo::detail
