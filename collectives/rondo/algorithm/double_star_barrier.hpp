#pragma once

#include <cstddef>

#include <rondo/algorithm/linear_gather.hpp>
#include <rondo/algorithm/linear_scatter.hpp>
#include <rondo/cost.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/double_star.hpp>

namespace rondo {

/// The leaves of two stars tell their centres, which tell each other, and the leaves. As few messages as one star has,
/// with half as many at the busiest rank: the one to take where ranks outnumber cores, and each half of the ranks has
/// cores of its own.
///
///     steps        3, and 2 (half - 2) messages that queue at a centre, half = ceil(size / 2); 1 between two ranks
///     sent         half elements by a centre, one by the others
///     scratch      size elements
///     limits       none
constexpr Cost double_star_barrier_cost(const Shape& shape) {
  const auto leaves = static_cast<std::uint64_t>(DoubleStar(0, shape.size).leaves());
  return {.steps = leaves > 0 ? 3U : 1U,
          .queued = leaves > 0 ? 2 * (leaves - 1) : 0,
          .carried = 2 * leaves + 1,
          .messages = leaves + 1,
          .sent = leaves + 1,
          .total = 2 * static_cast<std::uint64_t>(shape.size - 1),
          .scratch = static_cast<std::uint64_t>(shape.size),
          .at_most = shape.size % 2 != 0};  // has a smaller star
}

template <Port P>
Task double_star_barrier(P& port, const Plan&) {
  const DoubleStar star(port.rank(), port.size());
  const Range words = port.scratch(star.is_centre() ? static_cast<std::size_t>(port.size()) : 1);
  if (!star.is_centre()) {
    auto sent = port.send(words, star.centre());
    co_await sent;
    auto received = port.recv(words, star.centre());
    co_await received;
    co_return;
  }

  const auto word = [&words](int rank) { return words.part(static_cast<std::size_t>(rank), 1); };
  Task collected = linear_collect(port, star.leaves(), word);
  co_await collected;
  auto received = port.recv(word(star.other_centre()), star.other_centre());
  auto sent = port.send(word(port.rank()), star.other_centre());
  co_await received;
  co_await sent;
  Task distributed = linear_distribute(port, star.leaves(), word);
  co_await distributed;
}

}  // namespace rondo
