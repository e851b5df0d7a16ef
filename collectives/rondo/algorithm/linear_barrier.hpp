#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_gather.hpp>
#include <rondo/algorithm/linear_scatter.hpp>

namespace rondo {

/// Everybody tells rank 0, which tells everybody: a star. The fewest messages and steps.
///
///     steps        2, and 2 (size - 2) messages that queue at rank 0
///     sent         one element to every other rank by rank 0, one by the others
///     scratch      size elements
///     limits       none
constexpr Cost linear_barrier_cost(const Shape& shape) {
  const auto size = static_cast<std::uint64_t>(shape.size);
  const Shape whole{shape.size, size};
  const Cost back = linear_scatter_cost(whole);
  Cost cost = linear_gather_cost(whole) + back;
  cost.messages = back.messages;
  cost.sent = back.sent;
  cost.scratch = size;
  return cost;
}

template <Port P>
Task linear_barrier(P& port, const Plan&) {
  const Range words = port.scratch(port.rank() == 0 ? static_cast<std::size_t>(port.size()) : 1);
  if (port.rank() == 0) {
    const auto word = [&words](int rank) { return words.part(static_cast<std::size_t>(rank), 1); };
    Task collected = linear_collect(port, word);
    co_await collected;
    Task distributed = linear_distribute(port, word);
    co_await distributed;
  } else {
    auto sent = port.send(words, 0);
    co_await sent;
    auto received = port.recv(words, 0);
    co_await received;
  }
}

}  // namespace rondo
