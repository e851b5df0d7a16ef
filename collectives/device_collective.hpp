#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <rondo/collective_call.hpp>
#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/device_direct.hpp"
#include "collectives/device_memory.hpp"
#include "collectives/device_staging.hpp"
#include "collectives/device_work.hpp"

namespace rondo::detail {

/// A collective whose buffers are of devices, as one rank goes through it: on the devices where all ranks can, which
/// they find out together, and otherwise on the host, in pieces.
class DeviceCollective {
 public:
  /// Takes the buffers. Throws Error, naming the collective. Under the engine's lock.
  DeviceCollective(Group& group, const CollectiveCall& call, const Arguments& arguments);

  /// `done` stays false, on all ranks alike, where it is to be done on the host. Throws CudaError.
  Task run(Operation& operation, const Plan& plan, bool in_place, bool& done);
  /// On the host, after those before it that it depends on. `plan`, `reduction`: as DeviceStaging has them.
  Task run_on_host(Operation& operation, const Plan& plan, const Reduction& reduction);

  /// What is queued on the stream from here on comes after it. False: that cannot be said yet.
  bool order(CudaStream stream) const;

 private:
  DeviceReduction reduction_for(const Operation& operation, const Plan& plan);
  DeviceShare share(const Plan& plan, bool in_place, bool has_kernels);
  /// By an algorithm by messages, where all ranks can map what they may need: otherwise pieces do better than messages
  /// that come through the host one by one.
  Task run_by_messages(Operation& operation, const Plan& plan, const DeviceReduction& reduction,
                       const std::vector<DeviceShare>& shares, bool& done);
  /// Others find all that this rank gives and gets, and it maps theirs.
  bool maps_and_is_mapped(const Plan& plan, const DeviceShare& own);
  DevicePlace expose(const Range& range);

  Group& group_;
  DeviceMemory memory_;
  DeviceTurn turn_;
  DeviceStaging staging_;
  std::optional<DeviceWork> work_;
};

}  // namespace rondo::detail
