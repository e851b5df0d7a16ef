#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_reduce.hpp>
#include <rondo/algorithm/linear_scatter.hpp>

namespace rondo {

/// Rank 0 combines everybody's input in scratch and sends every rank its block: a star. The fewest processes that must
/// wake one after the other, so the one to take for little data where ranks outnumber cores.
///
///     steps        2, and 2 (size - 2) messages that queue at rank 0
///     sent         count by each rank; rank 0 sends all blocks but its own
///     scratch      count on rank 0
///     limits       none
constexpr Cost linear_reduce_scatter_cost(const Shape& shape) {
  const Shape whole{shape.size, shape.count};
  const Cost back = linear_scatter_cost(whole);
  Cost cost = linear_reduce_cost(whole) + back;
  cost.messages = back.messages;
  cost.sent = shape.count;
  cost.scratch = shape.count;
  return cost;
}

template <Port P>
Task linear_reduce_scatter(P& port, const Plan& plan) {
  const Range input = plan.blocks.whole(Buffer::input);
  const Range own{Buffer::output, 0, plan.blocks.count(port.rank())};
  const Range total = port.scratch(port.rank() == 0 ? input.count : 0);
  Task reduced = linear_reduce_chunk(port, input, total, 0);
  co_await reduced;
  if (port.rank() == 0) {
    const auto share = [&](int to) { return total.part(plan.blocks.begin(to), plan.blocks.count(to)); };
    port.copy(share(0), own);
    Task distributed = linear_distribute(port, share);
    co_await distributed;
  } else {
    auto received = port.recv(own, 0);
    co_await received;
  }
}

}  // namespace rondo
