#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <rondo/collective_call.hpp>
#include <rondo/plan.hpp>
#include <rondo/port.hpp>
#include <rondo/task.hpp>

#include "collectives/device_memory.hpp"
#include "collectives/device_work.hpp"
#include "collectives/pieces.hpp"

namespace rondo::detail {

/// The way of a collective on devices through the host, in pieces: while one is done between the ranks, what this rank
/// gives to the next is copied to the host, and what it got of the one before to the device. Every algorithm,
/// transport, element type and operator serves it. Of the host's memory no more is pinned than kAhead pieces of what
/// is given and as many of what is got.
class DeviceStaging {
 public:
  static constexpr std::size_t kAhead = 2;

  explicit DeviceStaging(const DeviceMemory& memory) : memory_(memory) {}

  /// To be awaited. `plan`: of an algorithm by messages; like the operator, it outlives this. Throws CudaError.
  Task run(Operation& operation, const Plan& plan, const Reduction& reduction);
  /// What is queued on the stream from here on comes after the result. False: that is not known yet.
  bool order(RankDevice& device, CudaStream stream) const { return taken_ && device.order(*memory_.got(), stream); }

 private:
  /// Where a piece lies on the host, and the copies that bring it there, or take it from there.
  struct Slot {
    std::byte* data() const noexcept { return memory ? memory->data() : nullptr; }

    std::shared_ptr<cuda::Staging::Block> memory;
    std::vector<std::shared_ptr<DeviceEvent>> copies;
  };
  using Slots = std::array<Slot, kAhead>;

  Task done_with(Operation& operation, Slot& slot);
  Task find_largest_block(Operation& operation, const Plan& plan, std::size_t& largest) const;
  /// Makes room for the ranges of a piece, if it has not been made.
  void make_room(RankDevice& device, Slot& slot, const std::vector<Range>& ranges) const;
  void bring(RankDevice& device, const std::vector<Range>& ranges, Slot& slot) const;
  void take(RankDevice& device, const std::vector<Range>& ranges, Slot& slot) const;
  /// `copy(place, ended, offset)` of each range: its place in the slot, whom to tell, and where in `buffer` it lies.
  template <typename Copy>
  void each(const std::vector<Range>& ranges, const DeviceMemory::Buffer& buffer, Slot& slot, const Copy& copy) const;

  const DeviceMemory& memory_;
  bool taken_ = false;  ///< the last copy of the result has been started
};

}  // namespace rondo::detail
