#pragma once

#include <rondo/plan.hpp>

#include "collectives/arguments.hpp"
#include "collectives/host_memory_port.hpp"
#include "runtime/operation.hpp"

namespace rondo::detail {

/// A collective on its way: its memory, its plan, and the coroutine of its algorithm, over messages (HostMemoryPort) or
/// over shared memory (DirectPort).
class CollectiveOperation final : public Operation {
 public:
  CollectiveOperation(Group& group, const Call& call, CollectiveCall request, const Arguments& arguments, Plan plan);

 private:
  Task body() override;
  Task in_shared_memory();

  HostMemory memory_;
  Plan plan_;
  HostMemoryPort port_;
};

}  // namespace rondo::detail
