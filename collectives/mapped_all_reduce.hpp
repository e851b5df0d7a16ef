#pragma once

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/direct_port.hpp"

namespace rondo::detail {

/// all_reduce from and to buffers that every rank maps (`allocate`): every rank combines its slice of the vector out of
/// all inputs, in rank order, and writes it to all outputs. `done` stays false, on all ranks alike, when some rank's
/// buffers are no such buffers.
///
///     accesses per rank    2n: no byte is read or written more often than it must be
Task mapped_all_reduce(DirectPort& port, const Plan& plan, bool& done);

}  // namespace rondo::detail
