#pragma once

#include <optional>

#include <rondo/tuning.hpp>

#include "bench/compare/contender.hpp"
#include "bench/tune/constants.hpp"

namespace rondo::bench {

/// Where the ranks of a question are.
struct Place {
  Path path = Path::shm;
  int hosts = 1;  ///< as many ranks on each
  int cores = 1;  ///< of each
};

/// What a choice takes in the model, in microseconds: T = max(critical path, work of all ranks / cores).
///
/// By messages the path is that of the simulated network, and the work is what all ranks do to send and receive, and
/// where cores are shared a turn for each message; of very many messages only the path is known, by the algorithm's
/// stated cost. In shared memory: see `ArenaModel`. By two levels the sum of the parts, each as the table chooses.
/// Nothing: the ranks are too many for an arena.
std::optional<double> predicted_microseconds(const Question& question, const Choice& choice, const Place& place,
                                             const Constants& constants = {});

}  // namespace rondo::bench
