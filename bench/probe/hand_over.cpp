// From one process's kernel to the next one's, by events: as rondo does it.

#include <optional>
#include <stdexcept>

#include "bench/probe/chain.hpp"
#include "bench/probe/item.hpp"
#include "cuda/event_pool.hpp"

namespace rondo::bench {
namespace {

/// One event of this process, and that of the process before it.
class EventLink final : public ChainLink {
 public:
  explicit EventLink(const Part& part) : part_(part), own_(part.context, 1) {
    part.place().event = own_.handles()[0];
    part.barrier();
    const int before = (part.rank + part.size - 1) % part.size;
    if (part.size > 1) previous_.emplace(part.context, std::span(&part.place(before).event, 1), before);
  }
  /// All at once, for whoever has opened an event closes it before it is destroyed.
  void close() {
    previous_.reset();
    part_.barrier();
  }

  void await(std::uint64_t) override {
    if (!previous_) return;
    const cuda::EventTicket ticket{};
    if (by_host) {
      Board::wait_until([&] { return previous_->done(ticket); });
    } else {
      previous_->wait(ticket, part_.stream.handle());
    }
  }

  /// The process behind has queued its wait for the last record: it had to, for this one to come to its turn.
  void tell(std::uint64_t) override {
    if (ticket_ && !own_.give_back(*ticket_)) throw std::logic_error("the chain's event is not in use");
    ticket_ = own_.record(part_.stream.handle());
  }

  bool by_host = false;  ///< the host waits for the event before it launches, and not the stream

 private:
  const Part& part_;
  cuda::EventPool own_;
  std::optional<cuda::ImportedEvents> previous_;
  std::optional<cuda::EventTicket> ticket_;
};

/// Seconds from the first launch to the end of the last kernel, on rank 0.
double go_by_host(const Part& part, Chain& chain, int rounds) {
  part.barrier();
  const auto begin = Part::Clock::now();
  chain.go(rounds);
  part.stream.synchronize();
  part.barrier();
  return seconds_since(begin);
}

}  // namespace

void answer_hand_over(const Part& part) {
  const Kernels kernels(part);
  EventLink link(part);
  Chain chain(part, kernels, link);
  measure_held(part, kernels, chain, part.size == 1 ? "kernel to kernel of one stream" : "by event");

  std::vector<double> by_host;
  const int rounds = part.pick(32, 4);
  link.by_host = true;
  for (int i = 0; part.size > 1 && i < part.pick(25, 3); ++i) by_host.push_back(go_by_host(part, chain, rounds));
  link.close();
  if (part.rank == 0 && !by_host.empty()) {
    const double kernels_in_all = static_cast<double>(rounds) * part.size;
    part.report(measured("by host that polls the event", 0, "us", microseconds(by_host, kernels_in_all)));
  }
}

}  // namespace rondo::bench
