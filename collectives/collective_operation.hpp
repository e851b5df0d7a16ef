#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <rondo/collective_call.hpp>
#include <rondo/plan.hpp>

#include "collectives/device_collective.hpp"
#include "collectives/direct_port.hpp"
#include "collectives/host_memory_port.hpp"
#include "collectives/prepared.hpp"
#include "runtime/operation.hpp"

namespace rondo::detail {

/// A collective on its way: its memory, its plan, and the coroutine of its algorithm, over messages (HostMemoryPort) or
/// over shared memory (DirectPort), or in two levels.
class CollectiveOperation final : public Operation {
 public:
  /// Takes the operator out of `request`; refers neither to that nor to `prepared` afterwards. `begun`: what has been
  /// done of its first step in shared memory. `device`: there, or perhaps, as the ranks will tell each other.
  CollectiveOperation(Group& group, CollectiveCall& request, const Prepared& prepared, const DirectPort::Begun& begun,
                      std::unique_ptr<DeviceCollective> device);

  bool order(CudaStream stream) override { return device_ && device_->order(stream); }

 private:
  /// Where the elements are that a rank has.
  enum class OwnSide : std::uint8_t { none, host, device };

  Task body() override;
  std::size_t moved_bytes() const noexcept override;
  Task on_side_of_others();
  Task on_device();
  Task on_device_or_host();
  Task on_host();
  Task in_shared_memory();
  void leave_shared_memory();

  const OwnSide side_;
  const Reduction reduction_;
  HostMemory memory_;
  Plan plan_;
  const DirectPort::Begun begun_;
  HostMemoryPort port_;
  std::unique_ptr<DeviceCollective> device_;
};

}  // namespace rondo::detail
