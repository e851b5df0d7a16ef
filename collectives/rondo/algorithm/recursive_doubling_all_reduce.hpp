#pragma once

#include <bit>
#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/topology/recursive_doubling.hpp>

namespace rondo {

/// Partners exchange everything they have and both combine it, always in rank order: Thakur, Rabenseifner and Gropp,
/// "Optimization of collective communication operations in MPICH" (2005). Both partners evaluate the same expression,
/// so all ranks see the same bits.
///
///     steps        log2 size, of the next lower power of two; two more where the size is not one itself
///     sent         count in each step
///     scratch      one chunk in each lane
///     limits       none
constexpr Cost recursive_doubling_all_reduce_cost(const Shape& shape) {
  const auto size = static_cast<std::uint64_t>(shape.size);
  const std::uint64_t participants = std::bit_floor(size);
  const std::uint64_t folded = size - participants;
  const auto rounds = static_cast<std::uint64_t>(std::bit_width(participants) - 1);
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const std::uint64_t steps = rounds + (folded > 0 ? 2 : 0);
  const std::uint64_t sends = rounds + (folded > 0 ? 1 : 0);
  // Who has no partner to wait for is a chunk ahead, and gets in the others' way.
  const std::uint64_t ahead = folded > 0 ? 3 * (chunks - 1) : 0;
  return {.steps = steps * chunks,
          .queued = ahead,
          .carried = steps * shape.count + ahead * longest_chunk(shape.count, shape.chunk),
          .reduced = (rounds + (folded > 0 ? 1 : 0)) * shape.count,
          .messages = sends * chunks,
          .sent = sends * shape.count,
          .total = (participants * rounds + 2 * folded) * chunks,
          .scratch = longest_chunk(shape.count, shape.chunk) * shape.lanes_of(chunks),
          .at_most = folded > 0 || shape.lanes_of(chunks) > 1};
}

namespace detail {

template <Port P>
Task recursive_doubling_lane(P& port, const Plan& plan, Lane lane) {
  const RecursiveDoubling doubling{port.rank(), port.size()};
  const int neighbour = doubling.is_folded() ? port.rank() - 1 : port.rank() + 1;
  const Range scratch = port.scratch(doubling.is_folded() ? 0 : longest_chunk(plan.blocks.total(), plan.chunk));
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range result{Buffer::output, input.begin, input.count};
    if (doubling.is_folded()) {
      auto sent = port.send(input, neighbour);
      co_await sent;
      auto received = port.recv(result, neighbour);
      co_await received;
      continue;
    }

    // Fold.
    Range partial = input;
    if (doubling.takes_in()) {
      auto reduced = port.recv_reduce(input, result, neighbour, Side::right);
      co_await reduced;
      partial = result;
    }
    // Double. `result` may be what is being sent, so it is left alone until that is done.
    const Range arriving = scratch.part(0, input.count);
    for (int round = 0; round < doubling.rounds(); ++round) {
      const int partner = doubling.partner(round);
      auto received = port.recv(arriving, partner);
      auto sent = port.send(partial, partner);
      co_await received;
      co_await sent;
      port.reduce(partial, arriving, result, partner < port.rank() ? Side::left : Side::right);
      partial = result;
    }
    port.finish(result);
    // Unfold.
    if (doubling.takes_in()) {
      auto sent = port.send(result, neighbour);
      co_await sent;
    }
  }
}

}  // namespace detail

template <Port P>
Task recursive_doubling_all_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::recursive_doubling_lane(p, plan, lane); });
}

}  // namespace rondo
