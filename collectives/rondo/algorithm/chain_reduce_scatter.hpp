#pragma once

#include <algorithm>
#include <cstddef>

#include <rondo/algorithm/chain_reduce.hpp>
#include <rondo/algorithm/linear_scatter.hpp>

namespace rondo {

/// Chain reduce to the last rank in scratch, then linear scatter from there: every element is combined from the left,
/// in rank order.
///
///     steps        size, and the messages that queue in a chain of chunks and at the last rank
///     sent         count, at most
///     scratch      count, on the last rank
///     limits       none
constexpr Cost chain_reduce_scatter_cost(const Shape& shape) {
  Shape to_last = shape;
  to_last.root = shape.size - 1;
  const Cost reduce = chain_reduce_cost(to_last);
  const Cost scatter = linear_scatter_cost(shape);
  Cost cost = reduce + scatter;
  // The last rank sends in the second phase only.
  cost.messages = std::max(reduce.messages, scatter.messages);
  cost.sent = std::max(reduce.sent, scatter.sent);
  cost.scratch = std::max(shape.count, shape.size > 2 ? reduce.scratch : 0);
  return cost;
}

namespace detail {

template <Port P>
Task chain_reduce_to_last_lane(P& port, const Plan& plan, const Range& total, Lane lane) {
  const bool is_last = port.rank() + 1 == port.size();
  const Range kept = port.scratch(is_last || port.rank() == 0 ? 0 : longest_chunk(plan.blocks.total(), plan.chunk));
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range partial = is_last ? total.part(input.begin, input.count) : kept.part(0, input.count);
    Task reduced = chain_reduce_range(port, input, partial);
    co_await reduced;
  }
}

}  // namespace detail

template <Port P>
Task chain_reduce_scatter(P& port, const Plan& plan) {
  const int last = port.size() - 1;
  const bool is_last = port.rank() == last;
  const Range total = port.scratch(is_last ? plan.blocks.total() : 0);
  const auto body = [&plan, &total](P& p, const Lane& lane) {
    return detail::chain_reduce_to_last_lane(p, plan, total, lane);
  };
  Task reduced = pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes, body);
  co_await reduced;

  const Range own{Buffer::output, 0, plan.blocks.count(port.rank())};
  if (is_last) {
    const auto place = [&](int to) { return total.part(plan.blocks.begin(to), plan.blocks.count(to)); };
    port.copy(place(last), own);
    Task distributed = linear_distribute(port, place);
    co_await distributed;
  } else {
    auto received = port.recv(own, last);
    co_await received;
  }
}

}  // namespace rondo
