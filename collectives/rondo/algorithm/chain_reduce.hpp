#pragma once

#include <cstddef>
#include <cstdint>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/plan.hpp>

namespace rondo {

/// How often a rank that awaits results from the end of a chain finds all slots of its windows taken.
constexpr std::uint64_t rounds_of(std::uint64_t chunks, const Shape& shape) {
  return chunks == 0 ? 0 : (chunks - 1) / (kWindow * shape.lanes_of(chunks)) + 1;
}

/// From rank 0 to the last rank, each combining its own with what came from those below, chunk after chunk; the last
/// sends the result to the root. So every element is combined from the left, in rank order, whatever the count, the
/// chunks and the root: ((x0 + x1) + x2) + x3.
///
///     steps        size - 1, and a message that queues for each further chunk; unless the last rank
///                  is the root, one more, again for every so many chunks as the root awaits at a time
///     sent         count
///     scratch      a chunk in each lane
///     limits       none; worth it with several chunks
constexpr Cost chain_reduce_cost(const Shape& shape) {
  const auto up = static_cast<std::uint64_t>(shape.size - 1);
  const bool sent_on = shape.root != shape.size - 1;
  const std::uint64_t hops = up + (sent_on ? 1 : 0);
  const std::uint64_t chunks = chunks_of(shape.count, shape.chunk);
  const std::uint64_t chunk = longest_chunk(shape.count, shape.chunk);
  const std::uint64_t rounds = sent_on ? rounds_of(chunks, shape) : 1;
  // At the root what comes from below and what comes from the end queue at one port.
  const std::uint64_t ways = sent_on && chunks > 1 ? 2 : 1;
  return {.steps = hops * rounds,
          .queued = ways * chunks - 1,
          .carried = rounds * (hops - 1) * chunk + ways * shape.count,
          .reduced = (up - 1) * chunk + shape.count,
          .messages = chunks,
          .sent = shape.count,
          .total = hops * chunks,
          .scratch = shape.size > 2 || sent_on ? chunk * shape.lanes_of(chunks) : 0,
          // While a chunk is combined, the next arrives.
          .at_most = chunks > 1};
}

/// One range on its way up: combined into `partial`, which stands at the last rank as the result. `partial` may be the
/// memory of `input`.
template <Port P>
Task chain_reduce_range(P& port, Range input, Range partial) {
  const int rank = port.rank();
  if (rank > 0) {
    auto reduced = port.recv_reduce(input, partial, rank - 1, Side::left);
    co_await reduced;
  }
  if (rank + 1 == port.size()) {
    port.finish(partial);
  } else {
    auto sent = port.send(rank > 0 ? partial : input, rank + 1);
    co_await sent;
  }
}

namespace detail {

template <Port P>
Task chain_reduce_lane(P& port, const Plan& plan, Lane lane) {
  const int last = port.size() - 1;
  const bool is_root = port.rank() == plan.root;
  const bool sent_on = plan.root != last;
  const Range kept = port.scratch(is_root || port.rank() == 0 ? 0 : longest_chunk(plan.blocks.total(), plan.chunk));
  Window<RecvOf<P>> results;
  for (std::size_t index = lane.first; index < lane.end; index += lane.stride) {
    const Range input = chunk_of(plan.blocks.whole(Buffer::input), plan.chunk, index);
    const Range output{Buffer::output, input.begin, input.count};
    const Range partial = is_root ? output : kept.part(0, input.count);
    Task reduced = chain_reduce_range(port, input, partial);
    co_await reduced;
    if (!sent_on) continue;
    if (port.rank() == last) {
      auto sent = port.send(partial, plan.root);
      co_await sent;
    } else if (is_root) {
      auto& slot = results[index / lane.stride];
      co_await slot;
      slot.launch([&] { return port.recv(output, last); });
    }
  }
  for (auto& slot : results) co_await slot;
}

}  // namespace detail

template <Port P>
Task chain_reduce(P& port, const Plan& plan) {
  return pipeline(port, chunks_of(plan.blocks.total(), plan.chunk), plan.lanes,
                  [&plan](P& p, const Lane& lane) { return detail::chain_reduce_lane(p, plan, lane); });
}

}  // namespace rondo
