#pragma once

#include <algorithm>
#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/dissemination.hpp>
#include <rondo/topology/ring.hpp>

namespace rondo {

/// Each round doubles what a rank holds: Bruck et al., "Efficient algorithms for all-to-all communications in
/// multiport message-passing systems" (1997). Blocks are held in ring order beginning with the rank's own, so that
/// every round sends one piece from the front.
///
///                     round 0 (from r + 1)   round 1 (from r + 2)   round 2 (from r + 4, one block)
///     rank 0 of 5:    0 | 1                  0 1 | 2 3              0 1 2 3 | 4
///     rank 3 of 5:    3 | 4                  3 4 | 0 1              3 4 0 1 | 2       then turned to 0 1 2 3 4
///
///     steps        ceil(log2 size)
///     sent         count (size - 1) / size
///     scratch      count, but for rank 0
///     limits       none; copies everything once more
constexpr Cost bruck_all_gather_cost(const Shape& shape) {
  const auto size = static_cast<std::uint64_t>(shape.size);
  const auto rounds = static_cast<std::uint64_t>(doubling_rounds(shape.size));
  const std::uint64_t elements = (size - 1) * shape.block();
  return {.steps = rounds,
          .queued = shape.even_blocks() ? 0 : rounds,
          .carried = elements,
          .messages = rounds,
          .sent = elements,
          .total = rounds * size,
          .scratch = shape.count,
          .at_most = !shape.even_blocks()};
}

template <Port P>
Task bruck_all_gather(P& port, const Plan& plan) {
  const Blocks& blocks = plan.blocks;
  const int rank = port.rank();
  const int size = port.size();
  const Ring ring{rank, size};
  const Range placed = blocks.in(Buffer::output, rank);
  const Range own = port.in_place() ? placed : Range{Buffer::input, 0, placed.count};
  const Range held = rank == 0 ? blocks.whole(Buffer::output) : port.scratch(blocks.total());
  if (held.part(0, own.count) != own) port.copy(own, held.part(0, own.count));

  for (int have = 1; have < size; have *= 2) {
    const int many = std::min(have, size - have);
    const int from = ring.around(have);
    auto received = port.recv(held.part(blocks.count_around(rank, have), blocks.count_around(from, many)), from);
    auto sent = port.send(held.part(0, blocks.count_around(rank, many)), ring.around(-have));
    co_await received;
    co_await sent;
  }

  if (rank != 0) {
    const std::size_t tail = blocks.total() - placed.begin;
    port.copy(held.part(0, tail), {Buffer::output, placed.begin, tail});
    port.copy(held.part(tail, placed.begin), {Buffer::output, 0, placed.begin});
  }
}

}  // namespace rondo
