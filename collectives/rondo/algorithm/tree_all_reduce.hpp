#pragma once

#include <cstddef>

#include <rondo/algorithm/tree_broadcast.hpp>
#include <rondo/algorithm/tree_reduce.hpp>

namespace rondo {

/// Tree reduce to rank 0, then tree broadcast from there, chunk by chunk. Rank order is kept, and all ranks get rank
/// 0's bits.
///
///     steps        2 ceil(log2 size)
///     sent         count ceil(log2 size), by rank 0
///     scratch      none
///     limits       none
constexpr Cost tree_all_reduce_cost(const Shape& shape) {
  Cost cost = tree_reduce_cost(shape) + tree_broadcast_cost(shape);
  // Rank 0 sends in the second phase only. The head of the largest subtree forwards to one fewer, but has sent its own
  // part up before: as much.
  cost.messages = tree_broadcast_cost(shape).messages;
  cost.sent = tree_broadcast_cost(shape).sent;
  cost.scratch = 0;
  return cost;
}

namespace detail {

template <Port P>
Task tree_all_reduce_lane(P& port, const Plan& plan, Lane lane) {
  const Tree tree(port.rank(), port.size(), 0);
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range output{Buffer::output, input.begin, input.count};
    Task reduced = tree_reduce_chunk(port, input, output, tree);
    co_await reduced;
    if (tree.is_root()) port.finish(output);
    Task sent = tree_broadcast_chunk(port, output, tree);
    co_await sent;
  }
}

}  // namespace detail

template <Port P>
Task tree_all_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::tree_all_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
