#pragma once

#include <cstddef>

#include <rondo/algorithm/chain_broadcast.hpp>
#include <rondo/algorithm/chain_reduce.hpp>

namespace rondo {

/// Chain reduce to the last rank, then chain broadcast from there: as many bytes over each connection as a ring, more
/// steps, and every element combined from the left, in rank order.
///
///     steps        2 (size - 1), and a message that queues for each further chunk, both ways
///     sent         2 count
///     scratch      none
///     limits       none; worth it with several chunks
constexpr Cost chain_all_reduce_cost(const Shape& shape) {
  Shape to_last = shape;
  to_last.root = shape.size - 1;
  Cost cost = chain_reduce_cost(to_last) + chain_broadcast_cost(to_last);
  cost.scratch = 0;
  // Two ranks send one way each.
  cost.messages = shape.size > 2 ? cost.messages : cost.messages / 2;
  cost.sent = shape.size > 2 ? cost.sent : shape.count;
  return cost;
}

namespace detail {

template <Port P>
Task chain_all_reduce_lane(P& port, const Plan& plan, Lane lane) {
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    Task reduced = chain_reduce_range(port, input, {Buffer::output, input.begin, input.count});
    co_await reduced;
  }
  Task sent = chain_broadcast_lane(port, plan, lane, port.size() - 1);
  co_await sent;
}

}  // namespace detail

template <Port P>
Task chain_all_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::chain_all_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
