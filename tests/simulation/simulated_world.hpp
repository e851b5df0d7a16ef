#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <rondo/communicator.hpp>

#include "runtime/engine.hpp"
#include "runtime/waiter.hpp"

namespace rondo::testing {

/// All ranks of a job in one thread and in virtual time: the runtime and the collectives of the product over links, a
/// clock and a waiter that are made up. What happens follows from the seed: how long each frame takes, whether it comes
/// whole or in two pieces, how much a link takes before it holds the sender back. Connections keep their own order and
/// overtake each other.
class SimulatedWorld {
 public:
  struct Limits {
    std::size_t eager_limit = std::size_t{64} << 10;
    std::size_t unexpected_bytes = std::size_t{64} << 20;
    std::size_t link_bytes = std::size_t{1} << 20;  ///< what a link takes before it holds the sender back
    std::size_t slices_from = std::size_t{256} << 10;
    std::vector<int> hosts;  ///< as Engine::Settings; links pass no memory, whatever they say
  };

  SimulatedWorld(int size, std::uint64_t seed, const Limits& limits);
  ~SimulatedWorld();

  int size() const { return static_cast<int>(engines_.size()); }
  Communicator& rank(int rank) { return communicators_[static_cast<std::size_t>(rank)]; }
  /// The same members on every rank, without the agreement that a running job needs.
  Communicator make(int rank, std::uint64_t id, std::vector<int> members);

  /// Lets time pass until nothing is on its way any more.
  void run();
  /// Nothing that a rank has started is unfinished, and nothing came that nobody wanted.
  bool quiet(int rank, std::uint64_t id);
  /// All memory that `to` promised `from` is free again, as far as it has said so.
  bool credit_complete(int from, int to);

  std::uint64_t events() const { return events_; }
  detail::Duration elapsed() const { return clock_.now() - detail::Time{}; }

 private:
  class VirtualClock;
  class SimulatedWaiter;
  class SimulatedLink;
  struct Connection;

  /// The next thing that happens happens. False: there is nothing.
  bool advance();
  void at(detail::Time when, int rank);
  detail::Duration delay();

  class VirtualClock final : public detail::Clock {
   public:
    detail::Time now() const override { return now_; }
    detail::Time now_{};
  };
  /// Instead of blocking, lets the world go on.
  class SimulatedWaiter final : public detail::Waiter {
   public:
    explicit SimulatedWaiter(SimulatedWorld& world) : world_(world) {}
    void wait(detail::WakeList&, detail::Duration timeout) override;
    void wake() noexcept override {}

   private:
    SimulatedWorld& world_;
  };

  std::mt19937_64 random_;
  const Limits limits_;
  VirtualClock clock_;
  SimulatedWaiter waiter_{*this};
  std::multimap<detail::Time, int> agenda_;  // who has something to look at, and when
  std::uint64_t events_ = 0;
  std::vector<std::shared_ptr<detail::Engine>> engines_;
  std::vector<Communicator> communicators_;
};

}  // namespace rondo::testing
