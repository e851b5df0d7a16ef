#include "bench/tune/prediction.hpp"

#include <algorithm>
#include <vector>

#include "collectives/simulation/predict.hpp"
#include "runtime/engine.hpp"

namespace rondo::bench {
namespace {

/// All sending and receiving, and where cores are shared a turn for each message that somebody awaits: after a look in
/// vain, which is a system call of a socket's.
double work_of_all(const simulation::Prediction& run, bool oversubscribed, Path path, const Constants& constants) {
  const simulation::LogGP& network = constants.network(path);
  const double handled = static_cast<double>(2 * network.overhead) / simulation::kMicrosecond;
  const double bytes = static_cast<double>(network.transfer(2 * run.total_bytes)) / simulation::kMicrosecond;
  const double turn = constants.arena.turn + (path == Path::tcp ? constants.vain : 0);
  return static_cast<double>(run.total_messages) * (handled + (oversubscribed ? turn : 0)) + bytes;
}

double microseconds_by_messages(const Question& question, const Choice& choice, const Place& place,
                                const Constants& constants) {
  rondo::Plan plan;
  plan.collective = question.collective;
  plan.algorithm = choice.algorithm;
  plan.chunk = choice.chunk_bytes;
  plan.blocks = Blocks::even(question.bytes, question.ranks);
  plan.recv_blocks = plan.blocks;
  const simulation::LogGP& network = constants.network(place.path);
  constexpr std::uint64_t kMostMessages = 1'000'000;
  const simulation::Prediction stated = simulation::formula(plan, question.ranks, network);
  const bool small = stated.total_messages <= kMostMessages;
  const simulation::Prediction run = small ? simulation::simulate(plan, question.ranks, network) : stated;
  const double path = static_cast<double>(run.time) / simulation::kMicrosecond;
  const int cores = question.oversubscribed ? place.hosts * place.cores : question.ranks;
  return std::max(path, work_of_all(run, question.oversubscribed, place.path, constants) / cores);
}

/// One after the other, as in collectives/two_level.cpp.
struct Level {
  Collective collective;
  bool on_host;
  std::uint64_t bytes;
};

std::vector<Level> levels_of(const Question& question, int hosts) {
  const std::uint64_t all = question.bytes;
  const std::uint64_t on_host = all / static_cast<std::uint64_t>(hosts);
  const auto in_host = [](Collective collective, std::uint64_t bytes) { return Level{collective, true, bytes}; };
  const auto between = [&](std::uint64_t bytes) { return Level{question.collective, false, bytes}; };
  using enum Collective;
  switch (question.collective) {
    case all_reduce:
      if (all < detail::Engine::Settings().slices_from)
        return {in_host(reduce, all), between(all), in_host(broadcast, all)};
      return {in_host(reduce_scatter, all),
              between(all * static_cast<std::uint64_t>(hosts) / static_cast<std::uint64_t>(question.ranks)),
              in_host(all_gather, all)};
    case reduce: return {in_host(reduce, all), between(all)};
    case broadcast: return {between(all), in_host(broadcast, all)};
    case scatter: return {between(all), in_host(scatter, on_host)};
    case gather: return {in_host(gather, on_host), between(all)};
    case all_gather: return {in_host(gather, on_host), between(all), in_host(broadcast, all)};
    case reduce_scatter: return {in_host(reduce, all), between(all), in_host(scatter, on_host)};
    case all_to_all: return {in_host(all_to_all, all), between(all)};
    default: return {in_host(barrier, 0), between(0), in_host(barrier, 0)};
  }
}

std::optional<double> microseconds_of_levels(const Question& question, const Place& place, const Constants& constants) {
  double sum = 0;
  for (const Level& level : levels_of(question, place.hosts)) {
    Question part = question;
    part.collective = level.collective;
    part.bytes = level.bytes;
    part.ranks = level.on_host ? question.ranks / place.hosts : place.hosts;
    part.one_host = level.on_host;
    part.oversubscribed &= level.on_host;
    part.hosts = part.hosts_in_order = part.hosts_alike = false;
    const auto time = predicted_microseconds(part, choose(part), {place.path, 1, place.cores}, constants);
    if (!time) return std::nullopt;
    sum += *time;
  }
  return sum;
}

}  // namespace

std::optional<double> predicted_microseconds(const Question& question, const Choice& choice, const Place& place,
                                             const Constants& constants) {
  if (choice.algorithm == Algorithm::two_level) return microseconds_of_levels(question, place, constants);
  if (shares_memory(choice.algorithm))
    return arena_microseconds(question, choice.algorithm, place.cores, constants.arena);
  return microseconds_by_messages(question, choice, place, constants);
}

}  // namespace rondo::bench
