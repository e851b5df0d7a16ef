#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_gather.hpp>
#include <rondo/algorithm/linear_scatter.hpp>

namespace rondo {

/// Everybody sends all its blocks to rank 0, which sorts them by receiver and sends everybody its own: a star. Every
/// byte goes twice, but in the fewest messages, so the one to take for little data where ranks outnumber cores.
///
///     steps        2, and 2 (size - 2) messages that queue at rank 0
///     sent         count (size - 1) by rank 0, count by the others
///     scratch      2 count (size - 1) on rank 0
///     limits       all blocks of one length: rank 0 must know what the others send each other
constexpr Cost linear_all_to_all_cost(const Shape& shape) {
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  const auto size = static_cast<std::uint64_t>(shape.size);
  const Shape whole{shape.size, size * shape.count};
  const Cost back = linear_scatter_cost(whole);
  Cost cost = linear_gather_cost(whole) + back;
  cost.messages = back.messages;
  cost.sent = back.sent;
  cost.scratch = 2 * others * shape.count;
  return cost;
}

namespace detail {

/// Rank 0's part of it.
template <Port P>
Task sort_for_everybody(P& port, const Blocks& blocks) {
  const int size = port.size();
  const auto others = static_cast<std::size_t>(size - 1);
  const Range input = blocks.whole(Buffer::input);
  const Range arriving = port.scratch(others * input.count);
  const Range sorted = port.scratch(others * input.count);
  const auto of = [&](const Range& all, int rank) {
    return all.part(static_cast<std::size_t>(rank - 1) * input.count, input.count);
  };
  const auto block = [&](const Range& vector, int rank) { return vector.part(blocks.begin(rank), blocks.count(rank)); };

  const auto place = [&](int from) { return of(arriving, from); };
  Task collected = linear_collect(port, place);
  co_await collected;

  // In place, what rank 0 has for others leaves its vector before what it gets comes in.
  for (int to = 1; to < size; ++to) {
    port.copy(block(input, to), block(of(sorted, to), 0));
    for (int from = 1; from < size; ++from) port.copy(block(of(arriving, from), to), block(of(sorted, to), from));
  }
  port.copy(block(input, 0), blocks.in(Buffer::output, 0));
  for (int from = 1; from < size; ++from) port.copy(block(of(arriving, from), 0), blocks.in(Buffer::output, from));

  const auto share = [&](int to) { return of(sorted, to); };
  Task distributed = linear_distribute(port, share);
  co_await distributed;
}

}  // namespace detail

template <Port P>
Task linear_all_to_all(P& port, const Plan& plan) {
  if (port.rank() == 0) {
    Task sorted = detail::sort_for_everybody(port, plan.blocks);
    co_await sorted;
  } else {
    auto sent = port.send(plan.blocks.whole(Buffer::input), 0);
    co_await sent;
    auto received = port.recv(plan.recv_blocks.whole(Buffer::output), 0);
    co_await received;
  }
}

}  // namespace rondo
