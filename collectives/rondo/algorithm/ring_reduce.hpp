#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_gather.hpp>
#include <rondo/algorithm/ring_reduce_scatter.hpp>

namespace rondo {

/// Ring reduce-scatter, then every rank sends its block of the result to the root.
///
///     steps        size, and size - 2 messages that queue at the root
///     sent         count, but for the root's own block
///     scratch      three chunks in each lane
///     limits       the operator commutes
constexpr Cost ring_reduce_cost(const Shape& shape) {
  const std::uint64_t stripes = chunks_of(shape.block(), shape.chunk);
  Cost gather = linear_gather_cost(shape);
  gather.messages *= stripes;
  gather.total *= stripes;
  gather.steps *= stripes;
  gather.queued *= stripes;
  gather.scratch = longest_chunk(shape.block(), shape.chunk) * shape.lanes_of(stripes);
  // While the root collects a stripe, the others begin the next.
  gather.at_most |= stripes > 1;
  return ring_reduce_scatter_cost(shape) + gather;
}

namespace detail {

template <Port P>
Task ring_reduce_lane(P& port, const Plan& plan, Lane lane) {
  const int rank = port.rank();
  const bool is_root = rank == plan.root;
  const RingPartials partials(port, plan);
  const Range kept = port.scratch(is_root ? 0 : longest_chunk(plan.blocks.count(rank), plan.chunk));
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Stripe stripe(plan.blocks, plan.chunk, index);
    const Range own = stripe.in(Buffer::output, rank);
    const Range result = is_root ? own : kept.part(0, own.count);
    const auto place = [&](int step, const Range& block) { return partials(step, block, result); };
    Task reduced = ring_reduce_stripe(port, stripe, place);
    co_await reduced;
    port.finish(result);

    if (is_root) {
      const auto block_of = [&stripe](int from) { return stripe.in(Buffer::output, from); };
      Task collected = linear_collect(port, block_of);
      co_await collected;
    } else {
      auto sent = port.send(result, plan.root);
      co_await sent;
    }
  }
}

}  // namespace detail

template <Port P>
Task ring_reduce(P& port, const Plan& plan) {
  const std::size_t stripes = chunks_of(plan.blocks.largest(), plan.chunk);
  return pipeline(port, stripes, plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::ring_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
