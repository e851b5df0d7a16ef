#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/ring.hpp>

namespace rondo {

/// From the root round the ring to the rank before it, chunk after chunk: every rank passes one on while the next
/// arrives.
///
///     steps        size - 1, and a message that queues for each further chunk
///     sent         count
///     scratch      none
///     limits       none; worth it with several chunks
constexpr Cost chain_broadcast_cost(const Shape& shape) {
  const auto hops = static_cast<std::uint64_t>(shape.size - 1);
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const std::uint64_t chunk = longest_chunk(shape.count, shape.chunk);
  return {.steps = hops,
          .queued = chunks - 1,
          .carried = (hops - 1) * chunk + shape.count,
          .messages = chunks,
          .sent = shape.count,
          .total = hops * chunks};
}

namespace detail {

template <Port P>
Task chain_broadcast_lane(P& port, const Plan& plan, Lane lane, int root) {
  const Ring ring{port.rank(), port.size()};
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range range = chunk_of(plan.blocks.whole(Buffer::output), plan.chunk, index);
    if (port.rank() != root) {
      auto received = port.recv(range, ring.prev());
      co_await received;
    }
    if (ring.next() != root) {
      auto sent = port.send(range, ring.next());
      co_await sent;
    }
  }
}

}  // namespace detail

template <Port P>
Task chain_broadcast(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::chain_broadcast_lane(p, plan, lane, plan.root); });
}

}  // namespace rondo
