// A chain of small kernels that goes round through all processes: each begins when the one before it has ended, in the
// process before. What a step takes is what it costs to give the device to the next process, and to tell it.

#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/probe/device_work.hpp"
#include "bench/probe/item.hpp"
#include "cuda/event_pool.hpp"

namespace rondo::bench {
namespace {

/// One event of this process, and that of the process before it.
class Chain {
 public:
  Chain(const Part& part, const Kernels& kernels) : part_(part), kernels_(kernels), own_(part.context, 1) {
    part.place().event = own_.handles()[0];
    part.barrier();
    const int before = (part.rank + part.size - 1) % part.size;
    before_ = &part.place(before);
    if (part.size > 1) previous_.emplace(part.context, std::span(&before_->event, 1), before);
  }
  /// All at once, for whoever has opened an event closes it before it is destroyed.
  void close() {
    previous_.reset();
    part_.barrier();
  }

  bool first() const { return part_.rank == 0; }

  /// This process's part in a chain that goes round so many times. `by_host`: the host waits for the event before it
  /// launches, and not the stream.
  void go(int rounds, bool by_host) {
    const std::uint64_t before = before_->count.load(std::memory_order_acquire);
    part_.barrier();
    for (int round = 0; round < rounds; ++round) {
      if (!(first() && round == 0)) await(before + static_cast<std::uint64_t>(round) + (first() ? 0 : 1), by_host);
      kernels_.launch_small();
      record();
    }
  }
  std::uint64_t queued_by_last() const { return part_.place(part_.size - 1).count.load(std::memory_order_acquire); }

 private:
  void await(std::uint64_t count, bool by_host) const {
    Board::wait_until([&] { return before_->count.load(std::memory_order_acquire) >= count; });
    if (!previous_) return;
    const cuda::EventTicket ticket{};
    if (by_host) {
      Board::wait_until([&] { return previous_->done(ticket); });
    } else {
      previous_->wait(ticket, part_.stream.handle());
    }
  }

  /// The process behind has queued its wait for the last record: it had to, for this one to come to its turn.
  void record() {
    if (ticket_ && !own_.give_back(*ticket_)) throw std::logic_error("the chain's event is not in use");
    ticket_ = own_.record(part_.stream.handle());
    part_.place().count.fetch_add(1, std::memory_order_acq_rel);
  }

  const Part& part_;
  const Kernels& kernels_;
  cuda::EventPool own_;
  const Board::Place* before_ = nullptr;
  std::optional<cuda::ImportedEvents> previous_;
  std::optional<cuda::EventTicket> ticket_;
};

/// How often a chain that was not queued in time may make the next one wait twice as long.
constexpr int kLonger = 5;

/// Seconds from the first launch to the end of the last kernel, on rank 0.
double go_by_host(const Part& part, Chain& chain, int rounds) {
  part.barrier();
  const auto begin = Part::Clock::now();
  chain.go(rounds, true);
  part.stream.synchronize();
  part.barrier();
  return seconds_since(begin);
}

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
  chain.go(rounds, false);
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

void answer_hand_over(const Part& part) {
  const Kernels kernels(part);
  std::optional<LongKernel> hold;
  if (part.rank == 0) hold.emplace(part, kernels);
  Chain chain(part, kernels);
  const int rounds = part.pick(32, 4);
  const int samples = part.pick(25, 3);
  const double kernels_in_all = static_cast<double>(rounds) * part.size;
  const double held_steps = static_cast<double>(rounds - 1) * part.size;

  std::vector<double> ahead;
  double hold_seconds = part.pick(0.05, 0.02);
  for (int i = 0; i < samples + kLonger; ++i) {
    if (const auto seconds = go_held(part, chain, hold ? &*hold : nullptr, hold_seconds, rounds)) {
      ahead.push_back(*seconds);
    } else {
      hold_seconds *= 2;
    }
  }
  std::vector<double> by_host;
  for (int i = 0; part.size > 1 && i < samples; ++i) by_host.push_back(go_by_host(part, chain, rounds));
  chain.close();
  if (part.rank != 0) return;
  const std::string what = part.size == 1 ? "kernel to kernel of one stream" : "by event";
  part.report(ahead.empty() ? answered(what, fmt::format("the host takes longer to queue {} kernels than one of {} s",
                                                         kernels_in_all, hold_seconds / 2))
                            : measured(what, 0, "us", microseconds(ahead, held_steps)));
  if (!by_host.empty())
    part.report(measured("by host that polls the event", 0, "us", microseconds(by_host, kernels_in_all)));
}

}  // namespace rondo::bench
