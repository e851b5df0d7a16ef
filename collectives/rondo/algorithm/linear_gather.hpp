#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/ring.hpp>

namespace rondo {

/// Every rank sends its block to the root, which has a few receives posted at a time.
///
///     steps        1, and size - 2 messages that queue at the root
///     sent         count / size, by each rank but the root
///     scratch      none
///     limits       none
constexpr Cost linear_gather_cost(const Shape& shape) {
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  // Shorter blocks come sooner, and all not in the order in which another root than rank 0 looks for them.
  const std::uint64_t disorder = shape.root != 0 || !shape.even_blocks() ? others : 0;
  return {.steps = 1,
          .queued = others - 1 + disorder,
          .carried = others * shape.block(),
          .messages = 1,
          .sent = shape.block(),
          .total = others,
          .at_most = disorder > 0};
}

/// Receives `place(rank)` from each of so many ranks, beginning with the neighbour; does `meanwhile()` while the last
/// of them are on their way.
template <Port P, typename Place, typename Meanwhile>
Task linear_collect(P& port, int ranks, Place place, Meanwhile meanwhile) {
  const Ring ring{port.rank(), port.size()};
  Window<RecvOf<P>> receives;
  for (int distance = 1; distance <= ranks; ++distance) {
    const auto number = static_cast<std::size_t>(distance);
    auto& slot = receives[number];
    co_await slot;
    const int from = ring.around(distance);
    slot.launch([&] { return port.recv(place(from), from); });
  }
  meanwhile();
  for (auto& slot : receives) co_await slot;
}

template <Port P, typename Place>
Task linear_collect(P& port, int ranks, Place place) {
  return linear_collect(port, ranks, place, [] {});
}

/// From every other rank, at the root.
template <Port P, typename Place>
Task linear_collect(P& port, Place place) {
  return linear_collect(port, port.size() - 1, place);
}

template <Port P>
Task linear_gather(P& port, const Plan& plan) {
  const int rank = port.rank();
  const Range own{Buffer::input, 0, plan.blocks.count(rank)};
  if (rank == plan.root) {
    const auto place = [&plan](int from) { return plan.blocks.in(Buffer::output, from); };
    const auto copy_own = [&] {
      if (!port.in_place()) port.keep(own, place(rank), elements_touched(plan, port.size(), false));
    };
    Task collected = linear_collect(port, port.size() - 1, place, copy_own);
    co_await collected;
  } else {
    auto sent = port.send(own, plan.root);
    co_await sent;
  }
}

}  // namespace rondo
