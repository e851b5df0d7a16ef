#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/ring.hpp>

namespace rondo {

/// The root sends every rank its block, a few at a time.
///
///     steps        1, and size - 2 messages that queue at the root
///     sent         count (size - 1) / size, by the root alone
///     scratch      none
///     limits       none
constexpr Cost linear_scatter_cost(const Shape& shape) {
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  const std::uint64_t elements = others * shape.block();
  return {.steps = 1,
          .queued = others - 1,
          .carried = elements,
          .messages = others,
          .sent = elements,
          .total = others,
          .at_most = !shape.even_blocks()};
}

/// Sends `place(rank)` to each of so many ranks, beginning with the neighbour; does `meanwhile()` while the last of
/// them are on their way.
template <Port P, typename Place, typename Meanwhile>
Task linear_distribute(P& port, int ranks, Place place, Meanwhile meanwhile) {
  const Ring ring{port.rank(), port.size()};
  Window<SendOf<P>> sends;
  for (int distance = 1; distance <= ranks; ++distance) {
    const auto number = static_cast<std::size_t>(distance);
    auto& slot = sends[number];
    co_await slot;
    const int to = ring.around(distance);
    slot.launch([&] { return port.send(place(to), to); });
  }
  meanwhile();
  for (auto& slot : sends) co_await slot;
}

template <Port P, typename Place>
Task linear_distribute(P& port, int ranks, Place place) {
  return linear_distribute(port, ranks, place, [] {});
}

/// To every other rank, from the root.
template <Port P, typename Place>
Task linear_distribute(P& port, Place place) {
  return linear_distribute(port, port.size() - 1, place);
}

template <Port P>
Task linear_scatter(P& port, const Plan& plan) {
  const int rank = port.rank();
  const Range own{Buffer::output, 0, plan.blocks.count(rank)};
  if (rank == plan.root) {
    const auto place = [&plan](int to) { return plan.blocks.in(Buffer::input, to); };
    const auto copy_own = [&] {
      if (!port.in_place()) port.keep(place(rank), own, elements_touched(plan, port.size(), false));
    };
    Task distributed = linear_distribute(port, port.size() - 1, place, copy_own);
    co_await distributed;
  } else {
    auto received = port.recv(own, plan.root);
    co_await received;
  }
}

}  // namespace rondo
