#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/dissemination.hpp>
#include <rondo/topology/tree.hpp>

namespace rondo {

/// Up the binomial tree, each rank sending the blocks of its whole subtree at once.
///
///     steps        ceil(log2 size); of an incomplete tree fewer
///     sent         count / 2, by the root's farthest child
///     scratch      count / 2 on an inner rank; count on a root other than rank 0
///     limits       none
constexpr Cost tree_gather_cost(const Shape& shape) {
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  const auto subtree = static_cast<std::uint64_t>(largest_subtree(shape.size));
  const std::uint64_t turned = shape.root != 0 ? shape.count : 0;
  return {.steps = static_cast<std::uint64_t>(doubling_rounds(shape.size)),
          .carried = others * shape.block(),
          .messages = 1,
          .sent = subtree * shape.block(),
          .total = others,
          .scratch = std::max(subtree > 1 ? subtree * shape.block() : 0, turned),
          .at_most = !shape.even_blocks() || !is_complete_tree(shape.size)};
}

template <Port P>
Task tree_gather(P& port, const Plan& plan) {
  const Blocks& blocks = plan.blocks;
  const int rank = port.rank();
  const Tree tree(rank, port.size(), plan.root);
  const Range input{Buffer::input, 0, blocks.count(rank)};
  const bool is_set = port.in_place() && tree.is_root();
  const Range own = is_set ? blocks.in(Buffer::output, rank) : input;

  // What this rank's subtree holds, its own block first.
  Range held = own;
  if (tree.is_root() && plan.root == 0) {
    held = blocks.whole(Buffer::output);
  } else if (tree.children() > 0) {
    held = port.scratch(blocks.count_around(rank, tree.subtree()));
  }

  Window<RecvOf<P>> receives;
  for (int child = 0; child < tree.children(); ++child) {
    const auto number = static_cast<std::size_t>(child);
    auto& slot = receives[number];
    co_await slot;
    const int from = tree.child(child);
    const Range share = held.part(blocks.count_around(rank, tree.child_place(child) - tree.place()),
                                  blocks.count_around(from, tree.child_subtree(child)));
    slot.launch([&] { return port.recv(share, from); });
  }
  if (held != own) port.copy(own, held.part(0, own.count));
  for (auto& slot : receives) co_await slot;

  if (!tree.is_root()) {
    auto sent = port.send(held, tree.parent());
    co_await sent;
  } else if (plan.root != 0) {
    // From the order of places, which begins with the root, to that of ranks.
    const std::size_t begin = blocks.begin(rank);
    const std::size_t tail = blocks.total() - begin;
    port.copy(held.part(0, tail), {Buffer::output, begin, tail});
    port.copy(held.part(tail, begin), {Buffer::output, 0, begin});
  }
}

}  // namespace rondo
