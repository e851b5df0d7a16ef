#pragma once

#include <cstddef>
#include <cstdint>

#include <rondo/task.hpp>

#include "runtime/operation.hpp"
#include "runtime/team.hpp"
#include "transport/shared_memory.hpp"

namespace rondo::detail {

/// Gives every member of a team the same new memory, or none to any: the first member creates it and passes it to the
/// others, over links through shared memory. All say the same `bytes`, and the same `number`, which no other memory of
/// a rank has. `memory` stays empty where one of them could not map it.
Task share_memory(Operation& operation, const Team& team, std::uint64_t number, std::size_t bytes,
                  SharedMemory& memory);

}  // namespace rondo::detail
