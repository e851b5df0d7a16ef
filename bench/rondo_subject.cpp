#include "bench/rondo_subject.hpp"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include <rondo/all_reduce.hpp>
#include <rondo/barrier.hpp>
#include <rondo/init.hpp>
#include <rondo/tuning.hpp>

#include "bench/carriers.hpp"
#include "bench/exercises.hpp"
#include "collectives/prepared.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "runtime/group.hpp"

namespace rondo::bench {

void RondoFabric::barrier() { rondo::barrier(communicator_); }

void RondoFabric::fold(std::span<double> values, Fold how) {
  if (how == Fold::max)
    all_reduce(communicator_, values, max);
  else
    all_reduce(communicator_, values, sum);
}

Algorithm chosen_algorithm(const Communicator& world, const Settings& settings, const Shape& shape) {
  const detail::Engine::Settings& engine = CommunicatorAccess::engine(world)->settings();
  detail::Group& group = CommunicatorAccess::group(world, "choose");
  Question question = detail::question_for(facts(settings.operation).collective, group);
  question.bytes = shape.bytes;
  question.on_device = settings.device;
  question.deterministic = facts(settings.operation).reduces && engine.deterministic;
  const Algorithm preferred = engine.algorithm[static_cast<std::size_t>(question.collective)];
  const Algorithm chosen = choose(question, settings.algorithm, preferred, 0, engine.tuning).algorithm;
  const bool in_vain = shares_memory(chosen) && !group.commons().no_arena().empty() && !settings.device;
  if (!in_vain) return chosen;
  // As the library does, then.
  question.one_host = false;
  return choose(question, Algorithm::automatic, Algorithm::automatic, 0, engine.tuning).algorithm;
}

Subject rondo_subject(Communicator& world, const Settings& settings) {
  const auto algorithm = [&world, &settings](const Shape& shape) {
    const bool messages = facts(settings.operation).point_to_point();
    return messages ? "none" : std::string(to_string(chosen_algorithm(world, settings, shape)));
  };
  const auto exercise = [&world, &settings](const Shape& shape) { return make_exercise(world, settings, shape); };
  Ways ways{carriers_in_use(world), {}, unshared_in_use(world, settings)};
  Subject subject{fmt::format("rondo {}", version()), names_of(ways.carriers), algorithm, exercise, std::move(ways)};
  if (settings.device) {
    subject.device = measure_device(world);
    subject.ways.device_carriers = device_carriers_in_use(world);
  }
  return subject;
}

}  // namespace rondo::bench
