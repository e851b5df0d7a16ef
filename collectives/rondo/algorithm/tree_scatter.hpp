#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/dissemination.hpp>
#include <rondo/topology/tree.hpp>

namespace rondo {

/// Down the binomial tree, each child getting the blocks of its whole subtree, the largest first.
///
///     steps        log2 size; of an incomplete tree floor(log2 size), and a message that queues
///     sent         count (size - 1) / size, by the root
///     scratch      count / 2 on an inner rank; count on a root other than rank 0
///     limits       none
constexpr Cost tree_scatter_cost(const Shape& shape) {
  const auto rounds = static_cast<std::uint64_t>(doubling_rounds(shape.size));
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  const std::uint64_t second = is_complete_tree(shape.size) ? 0 : 1;
  const auto subtree = static_cast<std::uint64_t>(largest_subtree(shape.size));
  const std::uint64_t turned = shape.root != 0 ? shape.count : 0;
  return {.steps = rounds - second,
          .queued = second,
          .carried = others * shape.block(),
          .messages = rounds,
          .sent = others * shape.block(),
          .total = others,
          .scratch = std::max(subtree > 1 ? subtree * shape.block() : 0, turned),
          .at_most = !shape.even_blocks()};
}

namespace detail {

/// All blocks in the order of the tree's places: that of the ranks, but beginning with the root.
template <Port P>
Range in_place_order(P& port, const Blocks& blocks, const Range& source, int root) {
  if (root == 0) return source;
  const Range turned = port.scratch(blocks.total());
  const std::size_t begin = blocks.begin(root);
  const std::size_t tail = blocks.total() - begin;
  port.copy(source.part(begin, tail), turned.part(0, tail));
  port.copy(source.part(0, begin), turned.part(tail, begin));
  return turned;
}

}  // namespace detail

/// Scatters `source` of the root, all blocks in rank order, so that each rank has its own in `own`.
template <Port P>
Task tree_scatter_blocks(P& port, const Blocks& blocks, Range source, Range own, int root) {
  const int rank = port.rank();
  const Tree tree(rank, port.size(), root);

  // What this rank's subtree gets, its own block first.
  Range held = own;
  if (tree.is_root()) {
    held = detail::in_place_order(port, blocks, source, root);
  } else {
    if (tree.children() > 0) held = port.scratch(blocks.count_around(rank, tree.subtree()));
    auto received = port.recv(held, tree.parent());
    co_await received;
  }

  Window<SendOf<P>> sends;
  for (int child = tree.children() - 1; child >= 0; --child) {
    const auto number = static_cast<std::size_t>(child);
    auto& slot = sends[number];
    co_await slot;
    const int to = tree.child(child);
    const Range share = held.part(blocks.count_around(rank, tree.child_place(child) - tree.place()),
                                  blocks.count_around(to, tree.child_subtree(child)));
    slot.launch([&] { return port.send(share, to); });
  }
  if (held != own) port.copy(held.part(0, own.count), own);
  for (auto& slot : sends) co_await slot;
}

template <Port P>
Task tree_scatter(P& port, const Plan& plan) {
  const int rank = port.rank();
  const bool stays = port.in_place() && rank == plan.root;
  const Range own = stays ? plan.blocks.in(Buffer::output, rank) : Range{Buffer::output, 0, plan.blocks.count(rank)};
  const Range source = plan.blocks.whole(Buffer::input);
  Task scattered = tree_scatter_blocks(port, plan.blocks, source, own, plan.root);
  co_await scattered;
}

}  // namespace rondo
