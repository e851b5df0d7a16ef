#pragma once

#include <string>

#include "bench/compare/contender.hpp"
#include "bench/tune/arena_model.hpp"
#include "collectives/simulation/loggp.hpp"

namespace rondo::bench {

/// What the model is made of: see ArenaModel and LogGP. Those of loopback and of shared memory on a virtual machine
/// with two cores, where one way 8 B took 5.1 us through bare TCP sockets and 0.3 us through shared memory, and long
/// messages 7 and 11 GB/s, unless they are measured (`Machine`).
struct Constants {
  ArenaModel arena;
  /// Microseconds of a look at a socket that has nothing: before each turn of a rank that awaits it.
  double vain = 0.3;
  simulation::LogGP tcp{600 * simulation::kNanosecond, 2300 * simulation::kNanosecond, simulation::kMicrosecond, 142,
                        70};
  simulation::LogGP shm{100 * simulation::kNanosecond, 100 * simulation::kNanosecond, 50 * simulation::kNanosecond, 90,
                        70};

  const simulation::LogGP& network(Path path) const noexcept { return path == Path::tcp ? tcp : shm; }
};

/// In words, over some lines.
std::string to_text(const Constants& constants, Path path, int cores);

}  // namespace rondo::bench
