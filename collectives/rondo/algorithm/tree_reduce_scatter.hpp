#pragma once

#include <cstddef>

#include <rondo/algorithm/tree_reduce.hpp>
#include <rondo/algorithm/tree_scatter.hpp>

namespace rondo {

/// Tree reduce to rank 0 in scratch, then tree scatter from there: few steps, and rank order kept.
///
///     steps        2 ceil(log2 size), of an incomplete tree fewer
///     sent         count, at most
///     scratch      count, and half as much again on the inner ranks
///     limits       none
constexpr Cost tree_reduce_scatter_cost(const Shape& shape) {
  const Shape whole{shape.size, shape.count};
  Cost cost = tree_reduce_cost(whole) + tree_scatter_cost(whole);
  cost.messages = static_cast<std::uint64_t>(doubling_rounds(shape.size));
  // Rank 0 sends all blocks but its own; the head of the largest subtree sends up everything and then its share.
  const auto below = static_cast<std::uint64_t>(largest_subtree(shape.size) - 1);
  cost.sent = std::max(tree_scatter_cost(whole).sent, shape.count + below * shape.block());
  cost.scratch = shape.count + tree_scatter_cost(whole).scratch;
  return cost;
}

template <Port P>
Task tree_reduce_scatter(P& port, const Plan& plan) {
  const Tree tree(port.rank(), port.size(), 0);
  const Range input = plan.blocks.whole(Buffer::input);
  const Range total = port.scratch(tree.children() > 0 ? input.count : 0);
  Task reduced = tree_reduce_chunk(port, input, total, tree);
  co_await reduced;
  if (tree.is_root()) port.finish(total);

  const Range own{Buffer::output, 0, plan.blocks.count(port.rank())};
  Task scattered = tree_scatter_blocks(port, plan.blocks, total, own, 0);
  co_await scattered;
}

}  // namespace rondo
