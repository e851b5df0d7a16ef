#include "bench/probe/chain.hpp"

#include <optional>
#include <vector>

#include <fmt/format.h>

namespace rondo::bench {
namespace {

/// How often a chain that was not queued in time may make the next one wait twice as long.
constexpr int kLonger = 5;

/// The whole chain is queued while a long kernel holds up its beginning, so that only what the device does is timed.
/// Seconds from the first kernel of rank 0 to its last; nothing where the host did not queue all in time, and on
/// others.
std::optional<double> go_held(const Part& part, Chain& chain, const LongKernel* hold, double hold_seconds, int rounds) {
  const std::uint64_t all = chain.queued_by_last() + static_cast<std::uint64_t>(rounds);
  const Mark begin(part);
  const Mark end(part);
  part.barrier();
  if (hold != nullptr) {
    hold->launch(hold_seconds);
    begin.record();
  }
  chain.go(rounds);
  bool ahead = false;
  if (hold != nullptr) {
    end.record();
    Board::wait_until([&] { return chain.queued_by_last() >= all; });
    ahead = !begin.passed();
  }
  part.stream.synchronize();
  part.barrier();
  return ahead ? std::optional(begin.seconds_until(end)) : std::nullopt;
}

}  // namespace

void Chain::go(int rounds) {
  const bool first = part_.rank == 0;
  const Board::Place& before = part_.place((part_.rank + part_.size - 1) % part_.size);
  const std::uint64_t begin = before.count.load(std::memory_order_acquire);
  part_.barrier();
  for (int round = 0; round < rounds; ++round) {
    if (!(first && round == 0)) {
      const std::uint64_t count = begin + static_cast<std::uint64_t>(round) + (first ? 0 : 1);
      Board::wait_until([&] { return before.count.load(std::memory_order_acquire) >= count; });
      link_.await(count);
    }
    kernels_.launch_small();
    link_.tell(part_.place().count.load(std::memory_order_relaxed) + 1);
    part_.place().count.fetch_add(1, std::memory_order_acq_rel);
  }
}

std::uint64_t Chain::queued_by_last() const {
  return part_.place(part_.size - 1).count.load(std::memory_order_acquire);
}

void measure_held(const Part& part, const Kernels& kernels, Chain& chain, const std::string& what) {
  std::optional<LongKernel> hold;
  if (part.rank == 0) hold.emplace(part, kernels);
  const int rounds = part.pick(32, 4);
  std::vector<double> seconds;
  double hold_seconds = part.pick(0.05, 0.02);
  for (int i = 0; i < part.pick(25, 3) + kLonger; ++i) {
    if (const auto one = go_held(part, chain, hold ? &*hold : nullptr, hold_seconds, rounds)) {
      seconds.push_back(*one);
    } else {
      hold_seconds *= 2;
    }
  }
  if (part.rank != 0) return;
  const double steps = static_cast<double>(rounds - 1) * part.size;
  part.report(seconds.empty() ? answered(what, fmt::format("the host takes longer to queue {} kernels than one of {} s",
                                                           rounds * part.size, hold_seconds / 2))
                              : measured(what, 0, "us", microseconds(seconds, steps)));
}

}  // namespace rondo::bench
