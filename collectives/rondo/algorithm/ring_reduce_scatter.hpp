#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/ring.hpp>

namespace rondo {

/// Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009): every block
/// goes once round the ring and is combined with each rank's own on its way.
///
///     steps        size - 1
///     sent         count (size - 1) / size
///     scratch      two chunks in each lane, where the results may not gather in the output
///     limits       the operator commutes
constexpr Cost ring_reduce_scatter_cost(const Shape& shape) {
  const auto size = static_cast<std::uint64_t>(shape.size);
  const std::uint64_t stripes = chunks_of(shape.block(), shape.chunk);
  const std::uint64_t steps = (size - 1) * stripes;
  const std::uint64_t elements = (size - 1) * shape.block();
  const std::uint64_t partials = shape.size > 2 ? 2 * longest_chunk(shape.block(), shape.chunk) : 0;
  return {.steps = steps,
          .carried = elements,
          .reduced = elements,
          .messages = steps,
          .sent = elements,
          .total = steps * size,
          .scratch = partials * shape.lanes_of(stripes),
          .at_most = !shape.even_blocks() || shape.lanes_of(stripes) > 1};
}

/// Sends one stripe round the ring. `place(step, block)` says where the partial result of a step stands, `block`
/// being the range of the input that goes into it. Ranks end with their own block complete, in the place of the
/// last step.
template <Port P, typename Place>
Task ring_reduce_stripe(P& port, Stripe stripe, Place place) {
  const Ring ring{port.rank(), port.size()};
  Range outgoing = stripe.in(Buffer::input, ring.reduce_send(0));
  for (int step = 0; step < ring.steps(); ++step) {
    const Range own = stripe.in(Buffer::input, ring.reduce_recv(step));
    const Range into = place(step, own);
    auto reduced = port.recv_reduce(own, into, ring.prev(), Side::left);
    auto sent = port.send(outgoing, ring.next());
    co_await reduced;
    co_await sent;
    outgoing = into;
  }
}

/// Where the partial results of ring_reduce_stripe alternate when there is no full vector to keep them in: while one
/// is being sent, the next is made in the other.
class RingPartials {
 public:
  template <Port P>
  RingPartials(P& port, const Plan& plan) : steps_(port.size() - 1) {
    const std::size_t length = steps_ > 1 ? longest_chunk(plan.blocks.largest(), plan.chunk) : 0;
    for (Range& range : ranges_) range = port.scratch(length);
  }

  /// The place of `block` at `step`, and `result` at the last step.
  Range operator()(int step, const Range& block, const Range& result) const {
    return step == steps_ - 1 ? result : ranges_[static_cast<std::size_t>(step % 2)].part(0, block.count);
  }

 private:
  int steps_;
  std::array<Range, 2> ranges_;
};

namespace detail {

template <Port P>
Task ring_reduce_scatter_lane(P& port, const Plan& plan, Lane lane) {
  const RingPartials partials(port, plan);
  const Range own{Buffer::output, 0, plan.blocks.count(port.rank())};
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Stripe stripe(plan.blocks, plan.chunk, index);
    const Range result = chunk_of(own, plan.chunk, index);
    const auto place = [&](int step, const Range& block) { return partials(step, block, result); };
    Task reduced = ring_reduce_stripe(port, stripe, place);
    co_await reduced;
    port.finish(result);
  }
}

}  // namespace detail

template <Port P>
Task ring_reduce_scatter(P& port, const Plan& plan) {
  const std::size_t stripes = chunks_of(plan.blocks.largest(), plan.chunk);
  return pipeline(port, stripes, plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::ring_reduce_scatter_lane(p, plan, lane); });
}

}  // namespace rondo
