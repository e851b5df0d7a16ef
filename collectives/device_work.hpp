#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rondo/task.hpp>

#include "collectives/device_memory.hpp"
#include "cuda/kernels/arguments.hpp"
#include "runtime/device_peers.hpp"
#include "runtime/group.hpp"
#include "runtime/operation.hpp"

namespace rondo::detail {

/// Something that the device does, and how it ended.
struct DeviceEvent {
  bool over = false;
  std::exception_ptr failure;

  /// What the device calls when it has done it.
  static std::function<void(const std::exception_ptr&)> ended(const std::shared_ptr<DeviceEvent>& event,
                                                              std::shared_ptr<void> held = nullptr);
};
/// To be awaited; throws what went wrong, which is a CudaError. No member can help it.
Task over(Operation& operation, std::shared_ptr<DeviceEvent> event);

/// The turn of a collective among those of its communicator on this rank's device, which come in the order of their
/// calls.
class DeviceTurn {
 public:
  /// At the call, when the device is opened, if there is one. Throws Error, naming the operation.
  DeviceTurn(Group& group, const DeviceMemory& memory, const char* operation);
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

  /// There is a device.
  explicit operator bool() const noexcept { return queue != nullptr; }
  /// To be awaited before anything is done: those before this one have been queued, and are over where it or they go
  /// through the host and it depends on them.
  Task come(Operation& operation) const;
  /// Nothing more is queued: the next may come.
  void pass() noexcept { own->all_queued = true; }
  /// The same of one that goes through the host.
  void pass_to_host() noexcept;
  /// It is over: who comes next follows those before it.
  void end() noexcept;

  std::shared_ptr<RankDevice::Opened::Queue> queue;
  const std::shared_ptr<CollectiveInRow> own = std::make_shared<CollectiveInRow>();
};

/// What one collective has this rank's device do: all in order on the stream of its communicator's collectives, where
/// the device waits for others by itself. Every wait is queued after the record that it is for, so what has been queued
/// always drains. What the host knows to be over nothing waits for, and the ends of others the host asks for. Throws
/// CudaErrors.
class DeviceWork {
 public:
  /// The turn outlives it.
  DeviceWork(Operation& operation, DeviceTurn& turn);
  /// What is still queued runs on, and keeps what it needs.
  ~DeviceWork();
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  Operation& operation() const noexcept { return operation_; }
  /// For what is queued there.
  cuda::StreamHandle stream() {
    queued_ = true;
    return turn_.queue->copies.stream();
  }

  // Order.
  /// All that follows comes after what the streams of the caller's buffers had been given, and after the communicator's
  /// collective before this one, on whatever device, for which it waits until that is queued everywhere. `of_leader`:
  /// as CollectiveInRow says. To be awaited.
  Task follow(const DeviceMemory& memory, bool of_leader = false);
  /// A ticket for so many members: this point in what is queued. It says nothing where nothing has been queued; where
  /// all events are in use, waits for the device to come here, and it says nothing either.
  Task record(cuda::EventTicket& ticket, int users);
  /// All that follows comes after what a member's ticket speaks of. He is told so by the next word that the algorithm
  /// sends him: then he gives it back.
  void wait_for(int member, cuda::EventTicket ticket);
  /// The same where that was the last word: the ticket is given back for him.
  void wait_for_end(int member, cuda::EventTicket ticket);
  /// A member's device waits for that; this one's host may tell who is late.
  void watch(int member, cuda::EventTicket ticket);
  /// The collective is not over before this, for which nothing here waits: it may be queued by now. The last word.
  void ends_with(int member, cuda::EventTicket ticket);
  /// A ticket of this rank that nobody will wait for any more.
  void give_back(cuda::EventTicket ticket, int users) noexcept;

  /// Whether that can be said of it.
  bool reaches(int member) const { return peers_.reaches(operation_.group().world_rank(member)); }

  // Memory.
  /// Where a member finds what lies here. Nowhere: it cannot.
  DevicePlace expose(int member, const cuda::PointerFacts& memory, cuda::Address address) const {
    return peers_.expose(operation_.group().world_rank(member), memory, address);
  }
  /// Where a member's place is here; it stays so until the device is done. Nothing: it cannot be reached.
  std::optional<cuda::Address> map(int member, const DevicePlace& place, std::uint64_t bytes);
  /// Kept until the device is done.
  void hold(std::shared_ptr<void> memory);
  /// Memory of the host, kept so too.
  std::shared_ptr<cuda::Staging::Block> stage(std::size_t bytes);
  /// `member` is for errors.
  void copy(cuda::Address from, cuda::Address to, std::size_t bytes, int member);
  void copy(cuda::Address from, std::byte* to, std::size_t bytes);
  void copy(const std::byte* from, cuda::Address to, std::size_t bytes);
  /// Within the device, in any order: one kernel takes less of the host than a copy for each.
  void move(std::vector<cuda::Move> moves);
  /// Waits until the device has done what has been queued. To be awaited.
  Task come();

  /// All has been queued: waits until the devices have done it. To be awaited.
  Task end();
  /// What is queued on the stream from here on comes after the end. False: not all has been queued yet.
  bool order(CudaStream stream) const;

 private:
  struct Wait {
    int member;
    cuda::EventTicket ticket;
    int phase;  ///< so many events had this rank recorded before
  };
  /// One of the driver's copies.
  template <typename Copy, typename To, typename From>
  void queue(Copy cuda::Driver::*copy, To to, From from, std::size_t bytes, int member);
  bool try_record(cuda::EventTicket& ticket, int users);
  bool is_done(const Wait& wait) const;
  bool awaits(int member) const;
  void follow_streams(const DeviceMemory& memory);
  void follow_row();
  /// Asked by the host until the others' ends are there.
  void await_ends(const std::shared_ptr<DeviceEvent>& there);
  Task over_or_late(std::shared_ptr<DeviceEvent> event) const;

  Operation& operation_;
  DevicePeers& peers_;
  RankDevice::Opened& device_;
  DeviceTurn& turn_;
  bool queued_ = false;
  std::vector<cuda::EventHandle> followed_;
  int recorded_ = 0;
  std::vector<Wait> waits_;
  std::vector<int> lost_;  ///< members to be waited for who are gone, which all will hear of
  std::shared_ptr<std::vector<std::shared_ptr<void>>> held_ = std::make_shared<std::vector<std::shared_ptr<void>>>();
  std::shared_ptr<cuda::Copies::Running> last_;
  bool ended_ = false;
};

}  // namespace rondo::detail
