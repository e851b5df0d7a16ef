#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rondo/call.hpp>

#include "collectives/simulation/loggp.hpp"

namespace rondo::tools {

/// What `rondo-sim` was asked.
struct SimOptions {
  Collective collective = Collective::none;
  int ranks = 8;
  std::size_t bytes = 0;                   ///< of the whole vector, as the benchmark counts it
  std::vector<Algorithm> algorithms;       ///< the candidates
  std::optional<std::size_t> chunk_bytes;  ///< without: the table's
  int lanes = 0;
  int root = 0;
  bool commutative = true;
  simulation::LogGP model;
  std::uint64_t max_messages = 0;  ///< candidates that send more are not simulated
  bool json = false;
};

/// The command line, checked. Nothing: there is nothing to do, and `exit_status` says how to end; the reason has been
/// printed.
std::optional<SimOptions> parse_sim_options(int argc, const char* const* argv, int& exit_status);

}  // namespace rondo::tools
