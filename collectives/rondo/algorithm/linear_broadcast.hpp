#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_scatter.hpp>

namespace rondo {

/// The root sends to every rank, one chunk to all before the next.
///
///     steps        1, and size - 2 messages that queue at the root
///     sent         count (size - 1), by the root alone
///     scratch      none
///     limits       none
constexpr Cost linear_broadcast_cost(const Shape& shape) {
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  const std::uint64_t messages = others * chunks_of(shape.count, shape.chunk);
  const std::uint64_t elements = others * shape.count;
  return {.steps = 1,
          .queued = messages - 1,
          .carried = elements,
          .messages = messages,
          .sent = elements,
          .total = messages};
}

/// Brings one range of the root's output to everybody.
template <Port P>
Task linear_broadcast_chunk(P& port, Range range, int root) {
  if (port.rank() == root) {
    const auto same = [&range](int) { return range; };
    Task distributed = linear_distribute(port, same);
    co_await distributed;
  } else {
    auto received = port.recv(range, root);
    co_await received;
  }
}

namespace detail {

template <Port P>
Task linear_broadcast_lane(P& port, const Plan& plan, Lane lane) {
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range range = chunk_of(plan.blocks.whole(Buffer::output), plan.chunk, index);
    Task sent = linear_broadcast_chunk(port, range, plan.root);
    co_await sent;
  }
}

}  // namespace detail

template <Port P>
Task linear_broadcast(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::linear_broadcast_lane(p, plan, lane); });
}

}  // namespace rondo
