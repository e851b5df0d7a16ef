#pragma once

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/host_memory_port.hpp"
#include "runtime/operation.hpp"

namespace rondo::detail {

/// The collective of `plan` among ranks on several hosts: in shared memory on each, by messages between them. P ranks
/// on H hosts, K on the host with the fewest, n bytes.
///
///     all_reduce, short    reduce on each host, all_reduce between the first of each, broadcast on each
///     all_reduce, long     reduce_scatter on each host, K all_reduces between one rank of each, all_gather on each:
///                          two more steps in memory, more links and cores at work (measured with 2 hosts of 2 ranks)
///     barrier              on each host, between the first of each, on each
///     broadcast, scatter   between the root and one rank of each other host, then on each
///     reduce, gather       on each host to one rank, then between these
///     all_gather           gather on each host, all_gather between the first of each, broadcast on each
///     reduce_scatter       reduce on each host, reduce_scatter between the first of each, scatter on each
///     all_to_all           on each host, so that its k-th rank has what is for the k-th of every host, then between
///                          these: H - 1 messages of each rank instead of P - 1, two more copies
///
///     between hosts        what the table takes for H ranks and n bytes; a long all_reduce K times n / K
///     limits               where blocks differ by rank, or the operator does not commute, the ranks of a host must be
///                          neighbours; all_to_all: as many on each
///
/// A sum is a left fold over the ranks of each host, and over hosts what the algorithm between them makes of it: the
/// same bits on every rank and in every run. All parts belong to the one operation: its call, its deadline, its
/// failure.
Task run_two_level(Operation& operation, HostMemory& memory, const Plan& plan);

}  // namespace rondo::detail
