#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_scatter.hpp>
#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/double_star.hpp>

namespace rondo {

/// The leaves of two stars send to their centres, which exchange what they have combined, always in rank order, and
/// send the result back. As few messages as one star has, with half as many at the busiest rank: the one to take where
/// ranks outnumber cores, and each half of the ranks has cores of its own.
///
///     steps        3, and 2 (half - 2) messages that queue at a centre, half = ceil(size / 2); 1 between two ranks
///     sent         count half, by a centre; count by the others
///     scratch      one chunk in each lane, at a centre
///     limits       none
constexpr Cost double_star_all_reduce_cost(const Shape& shape) {
  const auto leaves = static_cast<std::uint64_t>(DoubleStar(0, shape.size).leaves());
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const std::uint64_t sends = leaves + 1;
  return {.steps = (leaves > 0 ? 3 : 1) * chunks,
          .queued = leaves > 0 ? 2 * (leaves - 1) * chunks : 0,
          .carried = (2 * leaves + 1) * shape.count,
          .reduced = (leaves + 1) * shape.count,
          .messages = sends * chunks,
          .sent = sends * shape.count,
          .total = 2 * static_cast<std::uint64_t>(shape.size - 1) * chunks,
          .scratch = longest_chunk(shape.count, shape.chunk) * shape.lanes_of(chunks),
          // An odd number of ranks has a smaller star, and a centre combines one while the next arrives, also of the
          // next chunk.
          .at_most = shape.size % 2 != 0 || leaves > 1 || chunks > 1};
}

namespace detail {

template <Port P>
Task double_star_lane(P& port, const Plan& plan, Lane lane) {
  const DoubleStar star(port.rank(), port.size());
  const Range scratch = port.scratch(star.is_centre() ? longest_chunk(plan.blocks.total(), plan.chunk) : 0);
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range result{Buffer::output, input.begin, input.count};
    if (!star.is_centre()) {
      auto sent = port.send(input, star.centre());
      co_await sent;
      auto received = port.recv(result, star.centre());
      co_await received;
      continue;
    }

    Range partial = input;
    for (int leaf = 1; leaf <= star.leaves(); ++leaf) {
      auto reduced = port.recv_reduce(partial, result, star.centre() + leaf, Side::right);
      co_await reduced;
      partial = result;
    }
    // `result` may be what is being sent, so it is left alone until that is done.
    const Range arriving = scratch.part(0, input.count);
    const int other = star.other_centre();
    auto received = port.recv(arriving, other);
    auto sent = port.send(partial, other);
    co_await received;
    co_await sent;
    port.reduce(partial, arriving, result, other < port.rank() ? Side::left : Side::right);
    port.finish(result);
    const auto same = [&result](int) { return result; };
    Task distributed = linear_distribute(port, star.leaves(), same);
    co_await distributed;
  }
}

}  // namespace detail

template <Port P>
Task double_star_all_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::double_star_lane(p, plan, lane); });
}

}  // namespace rondo
