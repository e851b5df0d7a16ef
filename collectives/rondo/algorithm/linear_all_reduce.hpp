#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_broadcast.hpp>
#include <rondo/algorithm/linear_reduce.hpp>

namespace rondo {

/// Everybody sends to rank 0, which sends the result back: a star. The fewest messages and the fewest processes that
/// must wake one after the other, so the one to take for little data where ranks outnumber cores and operands are
/// wanted from the left.
///
///     steps        2, and 2 (size - 2) messages that queue at rank 0
///     sent         count (size - 1) by rank 0, count by the others
///     scratch      none
///     limits       none
constexpr Cost linear_all_reduce_cost(const Shape& shape) {
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const Shape whole{shape.size, shape.count};
  const Cost back = linear_broadcast_cost(whole);
  Cost cost = linear_reduce_cost(whole) + back;
  // A lane sends a chunk when it has the result of the one before.
  cost.steps *= chunks;
  cost.queued *= chunks;
  cost.total *= chunks;
  cost.messages = chunks * back.messages;
  cost.sent = back.sent;
  cost.at_most |= chunks > 1;
  return cost;
}

namespace detail {

template <Port P>
Task linear_all_reduce_lane(P& port, const Plan& plan, Lane lane) {
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range output{Buffer::output, input.begin, input.count};
    Task reduced = linear_reduce_chunk(port, input, output, 0);
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
