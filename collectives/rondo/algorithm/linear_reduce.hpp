#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>

namespace rondo {

/// The root combines everybody's input with its own: from its neighbours outwards, so in rank order.
///
///     steps        1, and size - 2 messages that queue at the root
///     sent         count, by each rank but the root
///     scratch      none
///     limits       none
constexpr Cost linear_reduce_cost(const Shape& shape) {
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const std::uint64_t elements = others * shape.count;
  // Messages do not come in the order in which another root than rank 0 needs them.
  const std::uint64_t disorder = shape.root != 0 && others > 1 ? others * chunks : 0;
  return {.steps = 1,
          .queued = others * chunks - 1 + disorder,
          .carried = elements,
          .reduced = elements,
          .messages = chunks,
          .sent = shape.count,
          .total = others * chunks,
          // While one is combined, the next arrives.
          .at_most = others * chunks > 1};
}

/// Combines one range of everybody's input in `result` of the root.
template <Port P>
Task linear_reduce_chunk(P& port, Range input, Range result, int root) {
  if (port.rank() != root) {
    auto sent = port.send(input, root);
    co_await sent;
    co_return;
  }
  Range partial = input;
  for (int lower = root - 1; lower >= 0; --lower) {
    auto reduced = port.recv_reduce(partial, result, lower, Side::left);
    co_await reduced;
    partial = result;
  }
  for (int higher = root + 1; higher < port.size(); ++higher) {
    auto reduced = port.recv_reduce(partial, result, higher, Side::right);
    co_await reduced;
    partial = result;
  }
  port.finish(result);
}

namespace detail {

template <Port P>
Task linear_reduce_lane(P& port, const Plan& plan, Lane lane) {
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    Task reduced = linear_reduce_chunk(port, input, {Buffer::output, input.begin, input.count}, plan.root);
    co_await reduced;
  }
}

}  // namespace detail

template <Port P>
Task linear_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::linear_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
