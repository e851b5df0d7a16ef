#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_broadcast.hpp>
#include <rondo/algorithm/linear_gather.hpp>

namespace rondo {

/// Rank 0 collects all blocks and sends everything to everybody: a star. The fewest messages, so the one to take for
/// little data where ranks outnumber cores.
///
///     steps        2, and 2 (size - 2) messages that queue at rank 0
///     sent         count (size - 1) by rank 0, count / size by the others
///     scratch      none
///     limits       none
constexpr Cost linear_all_gather_cost(const Shape& shape) {
  const Shape whole{shape.size, shape.count};
  const Cost back = linear_broadcast_cost(whole);
  Cost cost = linear_gather_cost(whole) + back;
  cost.messages = back.messages;
  cost.sent = back.sent;
  return cost;
}

template <Port P>
Task linear_all_gather(P& port, const Plan& plan) {
  const int rank = port.rank();
  const Range placed = plan.blocks.in(Buffer::output, rank);
  const Range own = port.in_place() ? placed : Range{Buffer::input, 0, placed.count};
  if (rank == 0) {
    if (own != placed) port.copy(own, placed);
    const auto place = [&plan](int from) { return plan.blocks.in(Buffer::output, from); };
    Task collected = linear_collect(port, place);
    co_await collected;
  } else {
    auto sent = port.send(own, 0);
    co_await sent;
  }
  Task distributed = linear_broadcast_chunk(port, plan.blocks.whole(Buffer::output), 0);
  co_await distributed;
}

}  // namespace rondo
