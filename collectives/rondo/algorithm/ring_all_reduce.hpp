#pragma once

#include <cstddef>

#include <rondo/algorithm/ring_all_gather.hpp>
#include <rondo/algorithm/ring_reduce_scatter.hpp>

namespace rondo {

/// Ring reduce-scatter, then ring all-gather of the results; each lane goes through both on its own stripes. The input
/// is combined straight into the output, without a copy first. Every block is combined by one rank, so all ranks see
/// the same bits.
///
///     steps        2 (size - 1)
///     sent         2 count (size - 1) / size
///     scratch      none
///     limits       the operator commutes
constexpr Cost ring_all_reduce_cost(const Shape& shape) {
  Cost cost = ring_reduce_scatter_cost(shape) + ring_all_gather_cost(shape);
  cost.scratch = 0;
  return cost;
}

namespace detail {

template <Port P>
Task ring_all_reduce_lane(P& port, const Plan& plan, Lane lane) {
  const auto in_output = [](int, const Range& block) { return Range{Buffer::output, block.begin, block.count}; };
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Stripe stripe(plan.blocks, plan.chunk, index);
    Task reduced = ring_reduce_stripe(port, stripe, in_output);
    co_await reduced;
    port.finish(stripe.in(Buffer::output, port.rank()));
    Task gathered = ring_gather_stripe(port, stripe);
    co_await gathered;
  }
}

}  // namespace detail

template <Port P>
Task ring_all_reduce(P& port, const Plan& plan) {
  const std::size_t stripes = chunks_of(plan.blocks.largest(), plan.chunk);
  return pipeline(port, stripes, plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::ring_all_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
