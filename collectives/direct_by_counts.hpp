#pragma once

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/direct_port.hpp"

namespace rondo::detail {

/// all_to_all by counts among ranks that share memory, each of which knows its own counts alone: by `direct`. What a
/// rank lays out, window by window, is its counts, and then the blocks, that for the next rank first.
///
///     accesses per rank    2 for each element that it has for others, and 2 for each that others have for it
///     limits               as many ranks as have room for their counts in half a window
///
/// `begun`: what `run_by_counts_at_once` has done of it.
Task run_by_counts(DirectPort& port, const Plan& plan, DirectPort::Begun begun);

/// Whether there is room for the counts of so many ranks, and as much for blocks.
bool has_room_for_counts(const DirectPort& port) noexcept;

/// The whole of it, if it is short and nobody is far behind. False: it has not been done, but for what `begun` says.
bool run_by_counts_at_once(DirectPort& port, const Plan& plan, DirectPort::Begun& begun);

}  // namespace rondo::detail
