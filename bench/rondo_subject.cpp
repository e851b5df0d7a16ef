#include "bench/rondo_subject.hpp"

#include <cstddef>
#include <vector>

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
  Question question =
      detail::question_for(facts(settings.operation).collective, CommunicatorAccess::group(world, "choose"));
  question.bytes = shape.bytes;
  return choose(question, settings.algorithm, engine.algorithm[static_cast<std::size_t>(question.collective)])
      .algorithm;
}

Subject rondo_subject(Communicator& world, const Settings& settings) {
  const auto algorithm = [&world, &settings](const Shape& shape) {
    const bool messages = facts(settings.operation).point_to_point();
    return messages ? "none" : std::string(to_string(chosen_algorithm(world, settings, shape)));
  };
  const auto exercise = [&world, &settings](const Shape& shape) { return make_exercise(world, settings, shape); };
  const std::vector<Carrier> carriers = carriers_in_use(world);
  Subject subject{fmt::format("rondo {}", version()), names_of(carriers), algorithm, exercise, carriers};
  if (settings.device) {
    subject.device = measure_device(world);
    subject.device_carriers = device_carriers_in_use(world);
  }
  return subject;
}

}  // namespace rondo::bench
