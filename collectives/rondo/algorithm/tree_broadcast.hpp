#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/dissemination.hpp>
#include <rondo/topology/tree.hpp>

namespace rondo {

/// Down the binomial tree, the largest subtree first.
///
///     steps        log2 size; of an incomplete tree floor(log2 size), and a message that queues
///     sent         count ceil(log2 size), by the root
///     scratch      none
///     limits       none
constexpr Cost tree_broadcast_cost(const Shape& shape) {
  const auto rounds = static_cast<std::uint64_t>(doubling_rounds(shape.size));
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  // In an incomplete tree the longest way down begins with the root's second child.
  const std::uint64_t second = is_complete_tree(shape.size) ? 0 : 1;
  return {.steps = rounds - second,
          .queued = (chunks - 1) * rounds + second,
          .carried = rounds * shape.count,
          .messages = chunks * rounds,
          .sent = shape.count * rounds,
          .total = chunks * static_cast<std::uint64_t>(shape.size - 1),
          .at_most = shape.lanes_of(chunks) > 1};
}

/// Brings `range` of the tree's root to everybody.
template <Port P>
Task tree_broadcast_chunk(P& port, Range range, Tree tree) {
  if (!tree.is_root()) {
    auto received = port.recv(range, tree.parent());
    co_await received;
  }
  Window<SendOf<P>> sends;
  for (int child = tree.children() - 1; child >= 0; --child) {
    const auto number = static_cast<std::size_t>(child);
    auto& slot = sends[number];
    co_await slot;
    slot.launch([&] { return port.send(range, tree.child(child)); });
  }
  for (auto& slot : sends) co_await slot;
}

namespace detail {

template <Port P>
Task tree_broadcast_lane(P& port, const Plan& plan, Lane lane) {
  const Tree tree(port.rank(), port.size(), plan.root);
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range range = chunk_of(plan.blocks.whole(Buffer::output), plan.chunk, index);
    Task sent = tree_broadcast_chunk(port, range, tree);
    co_await sent;
  }
}

}  // namespace detail

template <Port P>
Task tree_broadcast(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::tree_broadcast_lane(p, plan, lane); });
}

}  // namespace rondo
