#pragma once

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/direct_port.hpp"

namespace rondo::detail {

/// all_reduce or reduce by `sliced`: the combining of a vector is shared out (SharedWork) over all ranks, in rank
/// order, and what came of it is laid out for the others: two waits, where ranks share cores most often one. P ranks, n
/// bytes.
///
///     accesses per rank    5n - n/P; where ranks share cores 5n + n/P
///     limits               none: operands are combined in rank order
///
/// (Sliced staging: S. Jain et al., "Framework for scalable intra-node collective operations using shared memory", SC
/// 2018.)
Task run_sliced(DirectPort& port, const Plan& plan);

}  // namespace rondo::detail
