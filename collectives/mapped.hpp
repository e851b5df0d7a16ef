#pragma once

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/direct_port.hpp"

namespace rondo::detail {

/// all_reduce or reduce from and to buffers that every rank maps (`allocate`): the combining is shared out
/// (SharedWork), straight out of all inputs, in rank order, and what comes of it is written to all outputs, or to the
/// root's. `done` stays false, on all ranks alike, where some rank's buffer is no such buffer.
///
///     accesses per rank    2n: no byte is read or written more often than it must be; reduce n + n/P
Task run_mapped(DirectPort& port, const Plan& plan, bool& done);

}  // namespace rondo::detail
