#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/ring.hpp>

namespace rondo {

/// Every block goes once round the ring.
///
///     steps        size - 1
///     sent         count (size - 1) / size
///     scratch      none
///     limits       none
constexpr Cost ring_all_gather_cost(const Shape& shape) {
  const auto size = static_cast<std::uint64_t>(shape.size);
  const std::uint64_t stripes = chunks_of(shape.block(), shape.chunk);
  const std::uint64_t steps = (size - 1) * stripes;
  const std::uint64_t elements = (size - 1) * shape.block();
  return {.steps = steps,
          .carried = elements,
          .messages = steps,
          .sent = elements,
          .total = steps * size,
          .at_most = !shape.even_blocks() || shape.lanes_of(stripes) > 1};
}

/// Completes one stripe of the output, in which each rank's own block stands already.
template <Port P>
Task ring_gather_stripe(P& port, Stripe stripe) {
  const Ring ring{port.rank(), port.size()};
  for (int step = 0; step < ring.steps(); ++step) {
    auto received = port.recv(stripe.in(Buffer::output, ring.gather_recv(step)), ring.prev());
    auto sent = port.send(stripe.in(Buffer::output, ring.gather_send(step)), ring.next());
    co_await received;
    co_await sent;
  }
}

namespace detail {

template <Port P>
Task ring_all_gather_lane(P& port, const Plan& plan, Lane lane) {
  const int rank = port.rank();
  const Range own{Buffer::input, 0, plan.blocks.count(rank)};
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Stripe stripe(plan.blocks, plan.chunk, index);
    if (!port.in_place()) port.copy(chunk_of(own, plan.chunk, index), stripe.in(Buffer::output, rank));
    Task gathered = ring_gather_stripe(port, stripe);
    co_await gathered;
  }
}

}  // namespace detail

template <Port P>
Task ring_all_gather(P& port, const Plan& plan) {
  const std::size_t stripes = chunks_of(plan.blocks.largest(), plan.chunk);
  return pipeline(port, stripes, plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::ring_all_gather_lane(p, plan, lane); });
}

}  // namespace rondo
