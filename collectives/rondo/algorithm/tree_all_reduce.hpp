#pragma once

#include <cstddef>

#include <rondo/algorithm/tree_broadcast.hpp>
#include <rondo/algorithm/tree_reduce.hpp>

namespace rondo {

/// Tree reduce to rank 0, then tree broadcast from there, chunk by chunk. Rank order is kept, and all ranks get rank
/// 0's bits.
///
///     steps        2 ceil(log2 size), of an incomplete tree fewer
///     sent         count ceil(log2 size), by rank 0
///     scratch      none
///     limits       none
constexpr Cost tree_all_reduce_cost(const Shape& shape) {
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const Shape whole{shape.size, shape.count};
  Cost cost = tree_reduce_cost(whole) + tree_broadcast_cost(whole);
  // A lane sends a chunk up when it has the result of the one before.
  cost.steps *= chunks;
  cost.queued *= chunks;
  cost.total *= chunks;
  // Rank 0 sends in the second phase only. The head of the largest subtree forwards to one fewer, but has sent its own
  // part up before: as much.
  cost.messages = chunks * tree_broadcast_cost(whole).messages;
  cost.sent = tree_broadcast_cost(whole).sent;
  cost.scratch = 0;
  cost.at_most |= shape.lanes_of(chunks) > 1;
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
