#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/dissemination.hpp>
#include <rondo/topology/tree.hpp>

namespace rondo {

/// Up the binomial tree: every rank combines its children's partial results with its own input, the nearest child
/// first. A subtree is a run of consecutive ranks, so operands stay in rank order as long as place 0 is rank 0: for
/// operators that do not commute the tree is rooted there, and rank 0 forwards the result to the root.
///
///     steps        ceil(log2 size), of an incomplete tree fewer; one more to forward
///     sent         count
///     scratch      one chunk in each lane, on the inner ranks
///     limits       none
constexpr Cost tree_reduce_cost(const Shape& shape) {
  const auto rounds = static_cast<std::uint64_t>(doubling_rounds(shape.size));
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const std::uint64_t forward = !shape.commutative && shape.root != 0 ? 1 : 0;
  // Between two chunks, and what is forwarded, messages meet at a port: never more than allowed for here was seen.
  const bool inner_ranks = shape.size > 3 || forward != 0;
  return {.steps = forward != 0 ? (rounds + 1) * chunks : rounds,
          .queued = (chunks - 1) * (rounds + 2),
          .carried = (rounds + forward * (chunks > 1 ? 4 : 1)) * shape.count,
          .reduced = rounds * shape.count,
          .messages = chunks,
          .sent = shape.count,
          .total = chunks * (static_cast<std::uint64_t>(shape.size - 1) + forward),
          .scratch = inner_ranks ? longest_chunk(shape.count, shape.chunk) * shape.lanes_of(chunks) : 0,
          .at_most = chunks > 1 || !is_complete_tree(shape.size)};
}

/// Combines `input` of all ranks in `into` of the tree's root. Inner ranks use their `into` for partial results,
/// leaves do not touch it.
template <Port P>
Task tree_reduce_chunk(P& port, Range input, Range into, Tree tree) {
  Range partial = input;
  const int children = tree.children();
  for (int child = 0; child < children; ++child) {
    auto reduced = port.recv_reduce(partial, into, tree.child(child), Side::right);
    co_await reduced;
    partial = into;
  }
  if (!tree.is_root()) {
    auto sent = port.send(partial, tree.parent());
    co_await sent;
  }
}

namespace detail {

/// From rank 0, where an operator that does not commute had to be evaluated, to the root.
template <Port P>
Task forward_result(P& port, Range partial, Range result, int root) {
  if (port.rank() == 0) {
    auto sent = port.send(partial, root);
    co_await sent;
  } else if (port.rank() == root) {
    auto received = port.recv(result, 0);
    co_await received;
  }
}

template <Port P>
Task tree_reduce_lane(P& port, const Plan& plan, Lane lane) {
  const Tree tree(port.rank(), port.size(), plan.commutative ? plan.root : 0);
  const bool is_root = port.rank() == plan.root;
  const bool forwards = !plan.commutative && plan.root != 0;
  const bool is_inner = !is_root && tree.children() > 0;
  const Range scratch = port.scratch(is_inner ? longest_chunk(plan.blocks.total(), plan.chunk) : 0);
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range result = chunk_of(plan.blocks.whole(Buffer::output), plan.chunk, index);
    const Range into = is_inner ? scratch.part(0, input.count) : result;
    Task reduced = tree_reduce_chunk(port, input, into, tree);
    co_await reduced;
    if (forwards) {
      Task forwarded = forward_result(port, into, result, plan.root);
      co_await forwarded;
    }
    if (is_root) port.finish(result);
  }
}

}  // namespace detail

template <Port P>
Task tree_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::tree_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
