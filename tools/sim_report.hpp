#pragma once

#include <string>
#include <vector>

#include "collectives/simulation/predict.hpp"
#include "tools/sim_options.hpp"

namespace rondo::tools {

/// One candidate, and what became of it.
struct SimResult {
  Algorithm algorithm = Algorithm::automatic;
  std::size_t chunk_bytes = 0;
  bool is_simulated = false;  ///< else `run` is the formula
  bool is_chosen = false;     ///< by the tuning table
  simulation::Prediction run;
  simulation::Prediction stated;
};

std::string sim_table(const SimOptions& options, const std::vector<SimResult>& results);
std::string sim_json(const SimOptions& options, const std::vector<SimResult>& results);

}  // namespace rondo::tools
