#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <rondo/algorithm/costs.hpp>
#include <rondo/algorithm/dispatch.hpp>

#include "collectives/simulation/port.hpp"

namespace rondo::simulation {

/// What an operation took on the simulated network.
struct Prediction {
  Time time = 0;               ///< until the last rank was done
  std::uint64_t messages = 0;  ///< sent by the busiest rank
  std::uint64_t bytes = 0;     ///< sent by the busiest rank
  std::uint64_t scratch = 0;   ///< bytes, on the neediest rank
  std::uint64_t total_messages = 0;
  std::uint64_t total_bytes = 0;  ///< simulated only: no formula states them
  bool at_most = false;           ///< upper bounds, where no formula is exact
};

/// Runs the very templates of the library, all ranks in this thread. The plan counts bytes.
inline Prediction simulate(const Plan& plan, int size, const LogGP& model) {
  Network network(size, model);
  std::vector<SimulatedPort> ports;
  std::vector<Task> tasks;
  ports.reserve(static_cast<std::size_t>(size));
  tasks.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ports.emplace_back(network, rank, 0);
    tasks.push_back(run_collective(ports.back(), plan));
    tasks.back().start();
  }
  network.run();

  Prediction prediction;
  for (int rank = 0; rank < size; ++rank) {
    const Task& task = tasks[static_cast<std::size_t>(rank)];
    if (!task.done()) throw std::logic_error("simulation: a rank waits for a message that nobody sends");
    task.result();
    const Network::Totals& totals = network.totals(rank);
    prediction.time = std::max(prediction.time, totals.time);
    prediction.messages = std::max(prediction.messages, totals.messages);
    prediction.bytes = std::max(prediction.bytes, totals.bytes);
    prediction.scratch = std::max(prediction.scratch, totals.scratch);
    prediction.total_messages += totals.messages;
    prediction.total_bytes += totals.bytes;
  }
  return prediction;
}

/// The same figures from the formulas that the algorithm states.
inline Prediction formula(const Plan& plan, int size, const LogGP& model) {
  const std::uint64_t count = plan.collective == Collective::barrier ? 1 : plan.blocks.total();
  const Cost cost =
      cost_of(plan.collective, plan.algorithm, {size, count, plan.chunk, plan.lanes, plan.root, plan.commutative});
  return {model.time_of(cost), cost.messages, cost.sent, cost.scratch, cost.total, 0, cost.at_most};
}

}  // namespace rondo::simulation
