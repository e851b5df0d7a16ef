#pragma once

#include <memory>
#include <optional>

#include <rondo/plan.hpp>

#include "collectives/arguments.hpp"
#include "collectives/device_collective.hpp"
#include "collectives/direct_port.hpp"
#include "collectives/host_memory_port.hpp"
#include "runtime/operation.hpp"

namespace rondo::detail {

/// A collective on its way: its memory, its plan, and the coroutine of its algorithm, over messages (HostMemoryPort) or
/// over shared memory (DirectPort), or in two levels.
class CollectiveOperation final : public Operation {
 public:
  /// `begun`: what has been done of its first step in shared memory.
  CollectiveOperation(Group& group, const Call& call, CollectiveCall request, const Arguments& arguments, Plan plan,
                      const DirectPort::Begun& begun = {}, std::unique_ptr<DeviceCollective> device = nullptr);

  bool order(CudaStream stream) override { return device_ && device_->order(stream); }

 private:
  Task body() override;
  Task on_device();
  Task on_device_or_host();
  Task on_host();
  Task in_shared_memory();

  const Reduction reduction_;
  HostMemory memory_;
  Plan plan_;
  const DirectPort::Begun begun_;
  HostMemoryPort port_;
  const std::unique_ptr<DeviceCollective> device_;
};

}  // namespace rondo::detail
