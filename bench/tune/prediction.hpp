#pragma once

#include <optional>

#include <rondo/tuning.hpp>

#include "bench/compare/contender.hpp"
#include "collectives/simulation/loggp.hpp"

namespace rondo::bench {

/// Where the ranks of a question are.
struct Place {
  Path path = Path::shm;
  int hosts = 1;  ///< as many ranks on each
  int cores = 1;  ///< of each
};

/// The network of a path: constants of loopback and of shared memory on a virtual machine with two cores. One way 8 B
/// took 5.1 us through bare TCP sockets and 0.3 us through shared memory; long messages 7 and 11 GB/s.
simulation::LogGP network_of(Path path);

/// What a choice takes in the model, in microseconds: T = max(critical path, work of all ranks / cores).
///
/// By messages the path is that of the simulated network, and the work is what all ranks do to send and receive; of
/// very many messages only the path is known, by the algorithm's stated cost. In shared memory: see `ArenaModel`. By
/// two levels the sum of the parts, each as the table chooses. Nothing: the ranks are too many for an arena.
std::optional<double> predicted_microseconds(const Question& question, const Choice& choice, const Place& place);

}  // namespace rondo::bench
