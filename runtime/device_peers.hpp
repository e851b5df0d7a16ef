#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/event_pool.hpp"
#include "cuda/import_table.hpp"
#include "runtime/device_frames.hpp"
#include "runtime/rank_device.hpp"

namespace rondo::detail {

class Engine;
class Peer;

/// How memory of another rank's device comes here.
struct DeviceWay {
  const char* name;    ///< "shared device", "NVLink", "PCIe", "hidden device" (one that is not visible here), "host"
  std::string reason;  ///< why through the host
};

/// What the ranks of one host know of each other's devices: whose memory lies where and how to map it, whose events to
/// wait for. The ground of messages and collectives between devices; moves no payload itself.
///
/// One for an engine, under its lock, about its `RankDevice`, which there is when anything but `hear`, `poll` and
/// `leave` is called.
class DevicePeers {
 public:
  explicit DevicePeers(Engine& engine) : engine_(engine) {}
  ~DevicePeers();
  DevicePeers(const DevicePeers&) = delete;
  DevicePeers& operator=(const DevicePeers&) = delete;

  // What others may know of this rank.
  /// Tells a rank of this host, once, whose events the tickets of this one speak of.
  void introduce(int world_rank);
  /// Tells a rank, ahead of whatever is sent to it next, all that it must know to map `address`. Nowhere: it could not,
  /// which the log says.
  DevicePlace expose(int world_rank, const cuda::PointerFacts& memory, cuda::Address address);
  /// Others shall close this allocation, and nothing of it is exposed until it is freed, or kept after all.
  void retire(const RankDevice::Allocation& allocation);

  // What this rank knows of others.
  /// So many bytes at a place of theirs. Nothing: it cannot be reached, which the log says, or not yet, as what lies
  /// there now, or is in its place, is yet to be closed, or its owner has ended it meanwhile. Throws RegionError: there
  /// is no such place.
  std::optional<cuda::ImportTable::Use> map(int world_rank, const DevicePlace& place, std::uint64_t bytes);
  /// Whether anything of theirs could be mapped and waited for; if not, the log says why.
  bool reaches(int world_rank) { return open(world_rank) != nullptr; }
  /// As far as has been seen, memory of theirs can be mapped, too.
  bool maps(int world_rank) { return reaches(world_rank) && remotes_.at(world_rank).failures < kMostFailures; }
  /// A rank that is reached writes here sooner than this one reads there, as far as has been seen. `is_ready`: its
  /// stream does not keep it from that. Where a device is shared no stream is to be waited for; the other's host is, to
  /// come to rondo.
  bool better_writes(int world_rank, bool is_ready) const {
    const Remote& remote = remotes_.at(world_rank);
    return remote.better_writes && remote.unwritten < kMostFailures && (is_ready || !remote.shared);
  }
  /// Whether such a rank wrote a message that it was let. When it has not some times in a row it is let no more.
  void note_write(int world_rank, bool written) {
    int& unwritten = remotes_.at(world_rank).unwritten;
    if (unwritten < kMostFailures) unwritten = written ? 0 : unwritten + 1;
  }
  /// As far as something has come from there, or was to.
  DeviceWay way(int world_rank) const;
  /// Their events, if it is reached.
  const cuda::ImportedEvents& events(int world_rank) const { return *remotes_.at(world_rank).events; }
  /// Such an event is not needed here any more, and may be used again.
  void used(int world_rank, cuda::EventTicket ticket);
  /// As long as this is held, what is open of theirs stays so, also when they want to leave: events that are yet to be
  /// waited for have no address by which they would be in use.
  std::shared_ptr<void> hold(int world_rank) { return remotes_[world_rank].holders; }
  /// It leaves, or is gone: what it has not said it will not say.
  bool ends(int world_rank) const;

  void hear(Peer& peer, std::span<const std::byte> frame);
  void gone(int world_rank);
  /// While the device is opened. Never blocks, never throws.
  void poll();
  /// Something is to be closed when the device lets it be: nobody rings then.
  bool closes_later() const noexcept;
  /// This rank leaves: nothing of the others' stays mapped but for operations that are not over, and they are asked to
  /// close what they have of ours.
  void leave();
  /// They have, all that are still there.
  bool left() const noexcept;

  /// Says in the log, once, why memory goes through the host.
  void stage_instead(const std::string& why);
  /// The same of a call that failed, whatever memory it was for: once for each call, code and rank.
  void stage_instead(const cuda::CudaError& error);
  /// The same where ranks are not on one host with this one, which whoever started them knows: only to who wants to
  /// know more.
  void stage_as_apart();

 private:
  /// So many attempts in a row to map memory of a rank fail, not for want of what comes free again, before there are no
  /// more: each takes a tenth of a millisecond, and would precede every message.
  static constexpr int kMostFailures = 3;

  /// What another rank has told of its device.
  struct Remote {
    std::optional<DeviceHello> hello;
    std::map<cuda::RegionId, cuda::RegionDescription> described;  ///< before there are imports
    cuda::RegionId last_described = 0;
    std::unique_ptr<cuda::ImportedEvents> events;
    std::unique_ptr<cuda::ImportTable> imports;
    bool shared = false;  ///< its device is this rank's
    bool seen = true;     ///< its device has a number here; if not, only an attempt tells whether it is reached
    bool better_writes = false;
    int unwritten = 0;     ///< messages in a row that it was let write, and did not: it cannot map, perhaps
    bool told = false;     ///< it has our hello, and may have opened what that speaks of
    bool refused = false;  ///< it cannot be reached, which has been logged
    int failures = 0;      ///< to map memory of it, in a row
    std::string why_not;   ///< that, or why memory of it could not be mapped the last time
    bool ends = false;     ///< what we have of it is to be closed

    std::shared_ptr<void> holders = std::make_shared<char>();

    /// An operation that is not over has an address of its memory, or needs its events.
    bool in_use() const noexcept { return imports && (imports->in_use() || holders.use_count() > 1); }
    bool closes() const noexcept { return (imports && imports->has_due()) || (ends && !in_use()); }
  };

  /// There is one.
  RankDevice::Opened& device() const;
  bool shares_host(int world_rank) const;
  /// There are events for others to wait for; if not, the log says why.
  bool has_events();
  void send_unmaps(const std::vector<cuda::ExportRegistry::Unmap>& unmaps);
  Remote* open(int world_rank);
  /// What is due is closed, unless a driver that waits for the device would wait for others.
  void close_due(cuda::ImportTable& imports);
  /// As the table does, where need be in the place of regions, of whatever rank, that nobody uses; nothing where those
  /// cannot be closed yet.
  std::optional<cuda::ImportTable::Use> use(cuda::ImportTable& imports, const DevicePlace& place, std::uint64_t bytes);
  /// Where the region is that is to be closed so that there may be room for this one; nullptr: there is none, or that
  /// was in vain before, with no more in use than now.
  cuda::ImportTable* in_the_way(cuda::ImportTable& imports, cuda::RegionId region) const;
  /// Where the region is that nobody has used for longest; nullptr: all are in use.
  cuda::ImportTable* longest_idle() const;
  void refuse(int world_rank, Remote& remote, const std::string& why);
  /// Memory of it could not be mapped: says why in the log, and when that is not tried any more.
  void note_failure(int world_rank, Remote& remote, cuda::RegionId region, const cuda::CudaError& error);
  std::string why_unreachable(const DeviceHello& hello) const;
  void choose_way(int world_rank, Remote& remote) const;
  void close(int world_rank, Remote& remote);
  void take(Peer& peer, Remote& remote, const DeviceFrame& frame);

  Engine& engine_;
  std::map<int, Remote> remotes_;
};

}  // namespace rondo::detail
