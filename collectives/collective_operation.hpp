#pragma once

#include <optional>

#include <rondo/plan.hpp>

#include "collectives/arguments.hpp"
#include "collectives/direct_port.hpp"
#include "collectives/host_memory_port.hpp"
#include "runtime/operation.hpp"

namespace rondo::detail {

/// A collective on its way: its memory, its plan, and the coroutine of its algorithm, over messages (HostMemoryPort) or
/// over shared memory (DirectPort).
class CollectiveOperation final : public Operation {
 public:
  CollectiveOperation(Group& group, const Call& call, CollectiveCall request, const Arguments& arguments, Plan plan);

  /// Instead of `start`: does it here and now, if it is short, in shared memory, and the others are not far behind.
  /// False: it is to be started.
  bool run_at_once();

 private:
  Task body() override;
  Task in_shared_memory();

  HostMemory memory_;
  Plan plan_;
  std::optional<DirectPort::Step> entered_;  // by `run_at_once`
  HostMemoryPort port_;
};

}  // namespace rondo::detail
