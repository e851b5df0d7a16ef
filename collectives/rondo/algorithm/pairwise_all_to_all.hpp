#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/cost.hpp>
#include <rondo/pipeline.hpp>
#include <rondo/plan.hpp>
#include <rondo/topology/ring.hpp>

namespace rondo {

/// Steps under way at a time: of blocks longer than a chunk two, so that less has to stay in caches.
constexpr std::uint64_t pairwise_steps(std::uint64_t block, std::uint64_t chunk) {
  return chunk != 0 && block > chunk ? 2 : kWindow;
}

/// In step s every rank sends to the one s further on and receives from the one s back, so no two send to the same.
/// A few steps are under way at a time, which keeps the ports busy once that many blocks take longer than one message.
///
///     steps        (size - 1) / 4, in chunks / 2; and the other messages, which queue
///     sent         count (size - 1) / size
///     scratch      none; in place: count
///     limits       none
constexpr Cost pairwise_all_to_all_cost(const Shape& shape) {
  const auto others = static_cast<std::uint64_t>(shape.size - 1);
  const std::uint64_t elements = others * shape.block();
  const std::uint64_t steps = pairwise_steps(shape.block(), shape.chunk);
  const std::uint64_t waits = (others + steps - 1) / steps;
  return {.steps = waits,
          .queued = others - waits,
          .carried = elements,
          .messages = others,
          .sent = elements,
          .total = others * (others + 1),
          .at_most = !shape.even_blocks() || waits > 1};
}

template <Port P>
Task pairwise_all_to_all(P& port, const Plan& plan) {
  const Ring ring{port.rank(), port.size()};
  Range source = plan.blocks.whole(Buffer::input);
  if (port.in_place()) {
    source = port.scratch(source.count);
    port.copy(plan.blocks.whole(Buffer::input), source);
  }
  const auto outgoing = [&](int to) { return source.part(plan.blocks.begin(to), plan.blocks.count(to)); };

  const auto size = static_cast<std::size_t>(port.size());
  const std::uint64_t steps = pairwise_steps((plan.blocks.total() + size - 1) / size, plan.chunk);
  Window<RecvOf<P>> receives;
  Window<SendOf<P>> sends;
  for (int distance = 1; distance < port.size(); ++distance) {
    const auto step = static_cast<std::size_t>(distance) % steps;
    auto& receive_slot = receives[step];
    co_await receive_slot;
    auto& send_slot = sends[step];
    co_await send_slot;

    const int from = ring.around(-distance);
    const int to = ring.around(distance);
    receive_slot.launch([&] { return port.recv(plan.recv_blocks.in(Buffer::output, from), from); });
    send_slot.launch([&] { return port.send(outgoing(to), to); });
  }
  port.keep(outgoing(port.rank()), plan.recv_blocks.in(Buffer::output, port.rank()),
            elements_touched(plan, port.size(), port.in_place()));
  for (auto& slot : receives) co_await slot;
  for (auto& slot : sends) co_await slot;
}

}  // namespace rondo
