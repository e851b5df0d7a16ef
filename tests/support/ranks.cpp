#include "tests/support/ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include <rondo/error.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "runtime/world.hpp"

namespace rondo::testing {
namespace {

detail::Identity identity_of(int rank, int size, const std::string& job) {
  detail::Identity identity;
  identity.rank = rank;
  identity.local_rank = rank;
  identity.size = size;
  identity.local_size = size;
  identity.job_id = job;
  identity.source = "test";
  if (size > 1) {
    identity.meeting.kind = detail::MeetingPoint::Kind::unix_name;
    identity.meeting.path = job;
  }
  return identity;
}

Outcome run_one(const detail::Identity& identity, const Config& config,
                const std::function<void(Communicator&)>& body) {
  try {
    auto world = std::make_shared<detail::World>(identity, config);
    Communicator communicator =
        CommunicatorAccess::make(std::shared_ptr<detail::Engine>(world, &world->engine()), world->group());
    world.reset();
    body(communicator);
    return {};
  } catch (const Error& error) {
    return {error.what(), error.code()};
  } catch (const std::exception& error) {
    return {error.what(), {}};
  }
}

}  // namespace

std::vector<Outcome> try_ranks(int size, const std::function<void(Communicator&)>& body, const Config& config) {
  return try_ranks(std::vector<Config>(static_cast<std::size_t>(size), config), body);
}

std::vector<Outcome> try_ranks(const std::vector<Config>& configs, const std::function<void(Communicator&)>& body) {
  const auto size = static_cast<int>(configs.size());
  static std::atomic<int> jobs{0};
  const std::string job = "rondo-test-" + std::to_string(::getpid()) + "-" + std::to_string(++jobs);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank, index = static_cast<std::size_t>(rank)] {
      outcomes[index] = run_one(identity_of(rank, size, job), configs[index], body);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void run_ranks(int size, const std::function<void(Communicator&)>& body, const Config& config) {
  const auto outcomes = try_ranks(size, body, config);
  const auto failed = [](const Outcome& outcome) { return outcome.failed(); };
  // Rather one that failed by itself than one that heard of it.
  auto first = std::find_if(outcomes.begin(), outcomes.end(),
                            [](const Outcome& one) { return one.failed() && one.code != Errc::peer_failed; });
  if (first == outcomes.end()) first = std::find_if(outcomes.begin(), outcomes.end(), failed);
  if (first != outcomes.end())
    throw std::runtime_error("rank " + std::to_string(first - outcomes.begin()) + ": " + first->error);
}

Communicator on_hosts(Communicator& world, const std::vector<int>& hosts) {
  CommunicatorAccess::engine(world)->agree(false, hosts);
  return world.dup();
}

}  // namespace rondo::testing
