#pragma once

#include <cstddef>

#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/double_star.hpp>

namespace rondo {

/// The leaves of two stars tell their centres, which tell each other, and the leaves. As few messages as a star has,
/// half as many at its busiest rank: the one to take where ranks outnumber cores.
///
///     steps        3, and 2 (size / 2 - 2) messages that queue at a centre; 1 between two ranks
///     sent         size / 2 elements by a centre, one by the others
///     scratch      size elements
///     limits       none
constexpr Cost double_star_barrier_cost(const Shape& shape) {
  const auto leaves = static_cast<std::uint64_t>(most_leaves(shape.size));
  return {.steps = leaves > 0 ? 3U : 1U,
          .queued = leaves > 0 ? 2 * (leaves - 1) : 0,
          .carried = 2 * leaves + 1,
          .messages = leaves + 1,
          .sent = leaves + 1,
          .total = 2 * static_cast<std::uint64_t>(shape.size - 1),
          .scratch = static_cast<std::uint64_t>(shape.size),
          .at_most = shape.size % 2 != 0};
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
  Window<RecvOf<P>> receives;
  for (int leaf = star.centre() + 1; leaf < star.end(); ++leaf) {
    auto& slot = receives[static_cast<std::size_t>(leaf)];
    co_await slot;
    slot.launch([&] { return port.recv(word(leaf), leaf); });
  }
  for (auto& slot : receives) co_await slot;
  auto received = port.recv(word(star.other_centre()), star.other_centre());
  auto sent = port.send(word(port.rank()), star.other_centre());
  co_await received;
  co_await sent;
  Window<SendOf<P>> sends;
  for (int leaf = star.centre() + 1; leaf < star.end(); ++leaf) {
    auto& slot = sends[static_cast<std::size_t>(leaf)];
    co_await slot;
    slot.launch([&] { return port.send(word(leaf), leaf); });
  }
  for (auto& slot : sends) co_await slot;
}

}  // namespace rondo
