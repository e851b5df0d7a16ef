#pragma once

#include <optional>

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/direct_port.hpp"

namespace rondo::detail {

/// The collective of `plan`, by one of the two algorithms for ranks that share memory. P ranks, n bytes of the whole
/// vector, m of a rank's block.
///
/// `direct`: every rank lays out what others need of it, and takes what it needs of the others: one wait. A vector
/// longer than a step goes in windows; while a window is read the next is laid out.
///
///     accesses per rank    all_reduce (P + 3) n, broadcast 2n, all_gather 2m + 2(P-1)m, all_to_all 4(P-1)m, ...
///     limits               none: operands are combined in rank order
///
/// Long blocks that are only moved are not laid out: their readers fetch them out of their owner's memory, where the
/// system allows that (2(P-1)m accesses instead of 4(P-1)m), and the owner waits for them.
///
/// `sliced` (all_reduce, reduce): see `run_sliced`.
///
/// The sums are left folds in rank order, whatever the size, the window or the timing: the same bits on every rank, in
/// every run, by either algorithm.
///
/// `begun`: what `run_at_once` has done of it.
Task run_direct(DirectPort& port, const Plan& plan, const DirectPort::Begun& begun = {});

/// Blocks, or whole vectors, that a rank lays out in a window of `direct`.
std::size_t shares_laid_out(Collective collective, int ranks) noexcept;
/// Whether `direct` has blocks of so many bytes fetched by their readers, where the system allows that.
bool fetches_blocks(Collective collective, int ranks, bool crowded, std::size_t block_bytes) noexcept;

/// The whole of a short `direct` collective, if nobody is far behind: without a coroutine, without a word to the
/// engine. False: it has not been done, but for what `begun` says.
bool run_at_once(DirectPort& port, const Plan& plan, DirectPort::Begun& begun);

}  // namespace rondo::detail
