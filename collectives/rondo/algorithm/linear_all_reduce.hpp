#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_broadcast.hpp>
#include <rondo/algorithm/linear_reduce.hpp>

namespace rondo {

/// Everybody sends to rank 0, which sends the result back: a star. The fewest messages and the fewest processes that
/// must wake one after the other, so the one to take for little data where ranks outnumber cores.
///
///     steps        2, and 2 (size - 2) messages that queue at rank 0
///     sent         count (size - 1) by rank 0, count by the others
///     scratch      none
///     limits       none
constexpr Cost linear_all_reduce_cost(const Shape& shape) {
  Cost cost = linear_reduce_cost(shape) + linear_broadcast_cost(shape);
  cost.messages = linear_broadcast_cost(shape).messages;
  cost.sent = linear_broadcast_cost(shape).sent;
  return cost;
}

namespace detail {

template <Port P>
Task linear_all_reduce_lane(P& port, const Plan& plan, Lane lane) {
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range output{Buffer::output, input.begin, input.count};
    Task reduced = linear_reduce_chunk(port, input, 0);
    co_await reduced;
    Task sent = linear_broadcast_chunk(port, output, 0);
    co_await sent;
  }
}

}  // namespace detail

template <Port P>
Task linear_all_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::linear_all_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
