#include "bench/rondo_subject.hpp"

#include <cstddef>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rondo/all_reduce.hpp>
#include <rondo/barrier.hpp>
#include <rondo/gather.hpp>
#include <rondo/init.hpp>
#include <rondo/tuning.hpp>

#include "bench/exercises.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "runtime/progress.hpp"

namespace rondo::bench {
namespace {

void exchange_with_all(Communicator& world) {
  Options options;
  options.algorithm = Algorithm::linear;
  const std::vector<std::byte> mine(1);
  std::vector<std::byte> all(static_cast<std::size_t>(world.size()));
  gather(world, std::span(mine), std::span(all), 0, options);
}

/// "tcp", or "tcp+unix" where hosts and pairs differ; "none" for a rank alone.
std::string transports_in_use(const Communicator& world) {
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const detail::Progress::Entry entry(engine.progress());
  std::set<std::string_view> names;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) continue;
    const detail::Link* const link = engine.peer(rank).link();
    if (link != nullptr) names.insert(link->transport());
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "+"));
}

}  // namespace

void RondoFabric::barrier() { rondo::barrier(communicator_); }

void RondoFabric::fold(std::span<double> values, Fold how) {
  if (how == Fold::max)
    all_reduce(communicator_, values, max);
  else
    all_reduce(communicator_, values, sum);
}

Algorithm chosen_algorithm(const Communicator& world, const Settings& settings, const Shape& shape) {
  const detail::Engine::Settings& engine = CommunicatorAccess::engine(world)->settings();
  Question question;
  question.collective = facts(settings.operation).collective;
  question.bytes = shape.bytes;
  question.ranks = world.size();
  question.oversubscribed = engine.oversubscribed;
  const Algorithm preferred = engine.algorithm[static_cast<std::size_t>(question.collective)];
  const bool possible = is_valid(question.collective, preferred);
  return choose(question, settings.algorithm == Algorithm::automatic && possible ? preferred : settings.algorithm)
      .algorithm;
}

Subject rondo_subject(Communicator& world, const Settings& settings) {
  exchange_with_all(world);
  const auto algorithm = [&world, &settings](const Shape& shape) {
    const bool messages = facts(settings.operation).point_to_point();
    return messages ? "none" : std::string(to_string(chosen_algorithm(world, settings, shape)));
  };
  const auto exercise = [&world, &settings](const Shape& shape) { return make_exercise(world, settings, shape); };
  return {fmt::format("rondo {}", version()), transports_in_use(world), algorithm, exercise};
}

}  // namespace rondo::bench
