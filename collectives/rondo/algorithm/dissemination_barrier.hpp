#pragma once

#include <rondo/cost.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/dissemination.hpp>

namespace rondo {

/// In round k every rank tells the one 2^k further on that it and all it has heard of have come: Hensgen, Finkel and
/// Manber, "Two algorithms for barrier synchronization" (1988).
///
///     steps        ceil(log2 size)
///     sent         one element in each step
///     scratch      two elements
///     limits       none
constexpr Cost dissemination_barrier_cost(const Shape& shape) {
  const auto rounds = static_cast<std::uint64_t>(doubling_rounds(shape.size));
  return {.steps = rounds,
          .carried = rounds,
          .messages = rounds,
          .sent = rounds,
          .total = rounds * static_cast<std::uint64_t>(shape.size),
          .scratch = 2};
}

template <Port P>
Task dissemination_barrier(P& port, const Plan&) {
  const Dissemination pattern{port.rank(), port.size()};
  const Range word = port.scratch(1);
  const Range heard = port.scratch(1);
  for (int round = 0; round < pattern.rounds(); ++round) {
    auto received = port.recv(heard, pattern.from(round));
    auto sent = port.send(word, pattern.to(round));
    co_await received;
    co_await sent;
  }
}

}  // namespace rondo
