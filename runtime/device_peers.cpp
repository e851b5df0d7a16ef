#include "runtime/device_peers.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cuda/device.hpp"
#include "runtime/engine.hpp"
#include "transport/process_memory.hpp"

namespace rondo::detail {
namespace {

/// What a driver may say that can map no more.
bool means_no_room(cuda::Result code) {
  return code == cuda::Result::out_of_memory || code == cuda::Result::map_failed;
}

/// What it may say of a device that is not visible here and cannot be reached; anything else may pass.
bool means_unreachable(cuda::Result code) {
  return code == cuda::Result::peer_access_unsupported || code == cuda::Result::invalid_device ||
         code == cuda::Result::not_supported;
}

}  // namespace

DevicePeers::~DevicePeers() {
  RankDevice& rank = engine_.device();
  if (!rank.opened()) return;
  rank.stop(engine_.patience(cuda::Copies::kPatience));
  // What the device still may do needs what it was given.
  if (rank.stuck()) {
    RankDevice::leave_to_driver(std::make_shared<std::map<int, Remote>>(std::move(remotes_)));
    return;
  }
  for (const auto& [world_rank, remote] : remotes_) {
    if (!remote.told) device().exports.forget(world_rank);  // it has closed all that it had
  }
  if (!left()) rank.keep_for_others();
}

RankDevice::Opened& DevicePeers::device() const { return *engine_.device().opened(); }

void DevicePeers::stage_instead(const std::string& why) {
  if (engine_.first_time(why)) engine_.log().warn("device memory goes through the host: {}", why);
}

void DevicePeers::stage_instead(const cuda::CudaError& error) {
  const std::string reason = fmt::format("{} {} {}", error.call(), static_cast<unsigned>(error.code()), error.peer());
  if (engine_.first_time(reason)) engine_.log().warn("device memory goes through the host: {}", error.what());
}

void DevicePeers::stage_as_apart() {
  const std::string why = "some ranks are on other hosts, or RONDO_TRANSPORT has none share memory";
  if (engine_.first_time(why)) engine_.log().info("device memory goes through the host: {}", why);
}

// What others may know of this rank.

bool DevicePeers::shares_host(int world_rank) const {
  const Engine::Settings& settings = engine_.settings();
  if (settings.hosts.empty() || world_rank == settings.rank) return false;
  const int here = settings.hosts[static_cast<std::size_t>(settings.rank)];
  return here >= 0 && settings.hosts[static_cast<std::size_t>(world_rank)] == here;
}

bool DevicePeers::has_events() {
  const std::string& why_not = device().why_no_events;
  if (!why_not.empty()) stage_instead(why_not);
  return why_not.empty();
}

void DevicePeers::introduce(int world_rank) {
  if (!shares_host(world_rank) || !has_events() || engine_.peer(world_rank).gone()) return;
  if (std::exchange(remotes_[world_rank].told, true)) return;
  DeviceHello hello{.process = ::getpid(), .word = ProcessWord::own().value, .device = device().uuid, .events = {}};
  std::copy(device().events.handles().begin(), device().events.handles().end(), hello.events.begin());
  engine_.peer(world_rank).tell_of_device(encode_device_frame(hello));
}

DevicePlace DevicePeers::expose(int world_rank, const cuda::PointerFacts& memory, cuda::Address address) {
  if (!shares_host(world_rank)) {
    if (world_rank != engine_.settings().rank) stage_as_apart();
    return {};
  }
  // Who is gone would never say that it has closed it.
  if (engine_.peer(world_rank).gone() || device().exports.is_retired(memory.base)) return {};
  if (!has_events()) return {};
  if (!memory.exportable) {
    stage_instead(memory.kind == cuda::PointerFacts::Kind::managed ? "it is managed, wanted memory of cuMemAlloc"
                                                                   : memory.why_not);
    return {};
  }
  try {
    const cuda::Current current(device().context);
    const auto exposure = device().exports.expose(world_rank, memory, address);
    send_unmaps(exposure.unmap);
    introduce(world_rank);
    if (exposure.description) engine_.peer(world_rank).tell_of_device(encode_device_frame(*exposure.description));
    return {.offset = exposure.offset, .region = exposure.region};
  } catch (const cuda::CudaError& error) {
    stage_instead(error);
    return {};
  }
}

void DevicePeers::send_unmaps(const std::vector<cuda::ExportRegistry::Unmap>& unmaps) {
  for (const auto& unmap : unmaps) {
    engine_.peer(unmap.peer).tell_of_device(encode_device_frame(DeviceUnmap{unmap.region}));
  }
}

void DevicePeers::retire(const RankDevice::Allocation& allocation) {
  send_unmaps(device().exports.retire(allocation.address, allocation.bytes));
}

// What this rank knows of others.

std::optional<cuda::ImportTable::Use> DevicePeers::map(int world_rank, const DevicePlace& place, std::uint64_t bytes) {
  Remote* const remote = place.region == 0 ? nullptr : open(world_rank);
  if (remote == nullptr || remote->failures == kMostFailures) return std::nullopt;
  close_due(*remote->imports);
  // On the way when its owner ended it.
  if (!remote->imports->has(place.region) && place.region <= remote->last_described) return std::nullopt;
  try {
    auto used = use(*remote->imports, place, bytes);
    remote->why_not.clear();
    if (used) remote->failures = 0;
    return used;
  } catch (const cuda::CudaError& error) {
    note_failure(world_rank, *remote, place.region, error);
    return std::nullopt;
  }
}

// Operations that are under way may need the events of such a rank: it is not refused in all.
void DevicePeers::note_failure(int world_rank, Remote& remote, cuda::RegionId region, const cuda::CudaError& error) {
  remote.why_not = error.what();
  if (!remote.seen && means_unreachable(error.code())) {
    remote.failures = kMostFailures;
    remote.why_not = fmt::format("this process does not see its device (CUDA_VISIBLE_DEVICES): {}", error.what());
    return stage_instead(fmt::format("rank {}: {}", world_rank, remote.why_not));
  }
  stage_instead(error);
  // Memory comes free again; so does room where others are in use. What cannot be mapped beside nothing never can be.
  const bool may_come =
      error.code() == cuda::Result::out_of_memory ||
      (error.code() == cuda::Result::map_failed && remote.imports->room(region) != cuda::ImportTable::Room::none);
  if (may_come || ++remote.failures < kMostFailures) return;
  stage_instead(fmt::format("rank {}: its memory is not mapped any more, for that failed {} times in a row", world_rank,
                            kMostFailures));
}

std::optional<cuda::ImportTable::Use> DevicePeers::use(cuda::ImportTable& imports, const DevicePlace& place,
                                                       std::uint64_t bytes) {
  for (bool again = true;;) {
    try {
      return imports.use(place.region, place.offset, bytes);
    } catch (const cuda::CudaError& error) {
      // By the driver's account something of theirs is still where this is to be.
      const bool is_there = error.code() == cuda::Result::already_mapped && std::exchange(again, false);
      if (!is_there && !means_no_room(error.code())) throw;
      cuda::ImportTable* const longest = is_there ? &imports : in_the_way(imports, place.region);
      if (longest == nullptr || !longest->idle_since()) throw;
      if (engine_.device().may_wait()) return std::nullopt;
      do {
        longest->close_idle();
      } while (is_there && longest->idle_since());
    }
  }
}

void DevicePeers::close_due(cuda::ImportTable& imports) {
  if (imports.has_due() && !engine_.device().may_wait()) imports.close_due();
}

cuda::ImportTable* DevicePeers::in_the_way(cuda::ImportTable& imports, cuda::RegionId region) const {
  using Room = cuda::ImportTable::Room;
  const bool in_use = std::any_of(remotes_.begin(), remotes_.end(), [](const auto& remote) {
    return remote.second.imports && remote.second.imports->in_use();
  });
  const Room left = in_use ? Room::none_beside_uses : Room::none;
  // Not again: each time all others would be closed, and mapped anew.
  if (imports.room(region) >= left) return nullptr;
  cuda::ImportTable* const longest = longest_idle();
  if (longest == nullptr) imports.note_no_room(region, left);
  return longest;
}

cuda::ImportTable* DevicePeers::longest_idle() const {
  cuda::ImportTable* longest = nullptr;
  for (const auto& [rank, remote] : remotes_) {
    if (!remote.imports || !remote.imports->idle_since()) continue;
    if (longest == nullptr || *remote.imports->idle_since() < *longest->idle_since()) longest = remote.imports.get();
  }
  return longest;
}

DevicePeers::Remote* DevicePeers::open(int world_rank) {
  const auto found = remotes_.find(world_rank);
  if (found == remotes_.end() || !found->second.hello || found->second.refused) return nullptr;
  Remote& remote = found->second;
  if (remote.imports) return &remote;
  if (!has_events()) return nullptr;
  std::string why;
  try {
    why = why_unreachable(*remote.hello);
    if (why.empty()) {
      remote.events = std::make_unique<cuda::ImportedEvents>(device().context, remote.hello->events, world_rank);
      remote.imports = std::make_unique<cuda::ImportTable>(device().context, world_rank);
      for (const auto& [id, region] : std::exchange(remote.described, {})) remote.imports->announce(region);
      choose_way(world_rank, remote);
      return &remote;
    }
  } catch (const cuda::CudaError& error) {
    why = error.what();
  } catch (const cuda::RegionError& error) {
    why = error.what();
  }
  refuse(world_rank, remote, why);
  return nullptr;
}

void DevicePeers::refuse(int world_rank, Remote& remote, const std::string& why) {
  remote.refused = true;
  remote.why_not = why;
  stage_instead(fmt::format("rank {}: {}", world_rank, why));
}

std::string DevicePeers::why_unreachable(const DeviceHello& hello) const {
  if (hello.process == ::getpid() && hello.word == ProcessWord::own().value)
    return "it is a thread of the same process";
  if (hello.device == device().uuid) return {};
  const cuda::Driver& driver = device().context.driver();
  const auto theirs = cuda::find_device(driver, hello.device);
  // The driver opens what others have on devices that are not visible here, where those are reached.
  if (theirs && !cuda::reaches(driver, device().context.device(), *theirs)) {
    return fmt::format("device {} does not reach device {}", device().context.device(), *theirs);
  }
  return {};
}

void DevicePeers::choose_way(int world_rank, Remote& remote) const {
  remote.shared = remote.hello->device == device().uuid;
  if (remote.shared) {
    // One of the two makes the copies both ways: the device changes slowly from one process to another.
    remote.better_writes = world_rank < engine_.settings().rank;
  } else {
    const cuda::Driver& driver = device().context.driver();
    const auto theirs = cuda::find_device(driver, remote.hello->device);
    remote.seen = theirs.has_value();
    remote.better_writes = theirs && !cuda::reads_well(driver, device().context.device(), *theirs);
  }
  const char* const way = remote.shared  ? remote.better_writes ? "shared: it copies here and from here by CUDA IPC"
                                                                : "shared: its memory is read and written by CUDA IPC"
                          : !remote.seen ? "another, which is not visible here: its memory is read by CUDA IPC"
                          : remote.better_writes
                              ? "another, over PCIe: its memory is read by CUDA IPC, or written by it"
                              : "another, over NVLink: its memory is read by CUDA IPC";
  engine_.log().info("rank {}: the device is {}", world_rank, way);
}

DeviceWay DevicePeers::way(int world_rank) const {
  if (!shares_host(world_rank)) return {"host", "not of one host, or told not to share memory"};
  if (!device().why_no_events.empty()) return {"host", device().why_no_events};
  const auto found = remotes_.find(world_rank);
  if (found == remotes_.end() || !found->second.imports) {
    const bool refused = found != remotes_.end() && found->second.refused;
    return {"host", refused ? found->second.why_not : "its memory cannot be mapped"};
  }
  const Remote& remote = found->second;
  if (!remote.why_not.empty()) return {"host", remote.why_not};
  return {remote.shared          ? "shared device"
          : !remote.seen         ? "hidden device"
          : remote.better_writes ? "PCIe"
                                 : "NVLink",
          {}};
}

void DevicePeers::used(int world_rank, cuda::EventTicket ticket) {
  engine_.peer(world_rank).tell_of_device(encode_device_frame(DeviceUsed{ticket}));
}

bool DevicePeers::ends(int world_rank) const { return remotes_.at(world_rank).ends; }

void DevicePeers::poll() {
  for (auto& [rank, remote] : remotes_) {
    if (remote.imports) {
      close_due(*remote.imports);
      for (const cuda::RegionId region : remote.imports->take_closed()) {
        engine_.peer(rank).tell_of_device(encode_device_frame(DeviceUnmapped{region}));
      }
    }
    if (!remote.ends || remote.in_use()) continue;
    if (!engine_.device().may_wait()) close(rank, remote);
  }
}

bool DevicePeers::closes_later() const noexcept {
  return std::any_of(remotes_.begin(), remotes_.end(), [](const auto& remote) { return remote.second.closes(); });
}

void DevicePeers::close(int world_rank, Remote& remote) {
  remote.ends = false;
  remote.imports.reset();
  remote.events.reset();
  remote.hello.reset();
  remote.described.clear();
  engine_.peer(world_rank).tell_of_device(encode_device_frame(DeviceEnded{}));
}

void DevicePeers::leave() {
  RankDevice& rank = engine_.device();
  if (!rank.opened()) return;
  rank.stop(engine_.patience(cuda::Copies::kPatience));
  if (rank.stuck()) {
    engine_.log().warn("the device waits for a rank that is late, or has died: what it was given stays mapped");
  } else {
    poll();
  }
  for (auto& [world_rank, remote] : remotes_) {
    if (!rank.stuck() && !remote.in_use()) {
      remote.imports.reset();
      remote.events.reset();
    }
    if (remote.told) engine_.peer(world_rank).tell_of_device(encode_device_frame(DeviceEnd{}));
  }
}

bool DevicePeers::left() const noexcept {
  // What is stuck stays as it is anyway.
  return engine_.device().stuck() ||
         std::none_of(remotes_.begin(), remotes_.end(), [](const auto& remote) { return remote.second.told; });
}

}  // namespace rondo::detail
