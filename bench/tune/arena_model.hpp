#pragma once

#include <cstddef>
#include <optional>

#include <rondo/tuning.hpp>

namespace rondo::bench {

/// What `direct`, `fetched` and `sliced` (collectives/direct.hpp) take: a rank moves bytes, meets the others, moves
/// bytes again.
///
///     T = max(critical path, work of all ranks / cores)
///
/// The critical path is of ranks that have a core each: for every window what is laid out, a meeting, what is taken or
/// combined, and of `sliced` a second meeting and what is taken then; of `fetched` what is fetched between two
/// meetings. While one rank reads a window another may lay out its next. The work is all of that for all ranks, and a
/// turn for each time that one of them waits for others on its core. A byte that is copied is accessed twice, one that
/// is combined of P ranks P + 1 times.
///
/// A byte in memory that the ranks share is written and soon read, out of a core's cache mostly; one in a rank's own
/// buffers may come from farther away.
///
/// The constants are those of a virtual machine with two cores, medians that show in
///
///     rondo-bench explain OPERATION --size S --ranks N --measure
///
/// What all ranks together move was in the last cache then; 8 ranks with 16M each took up to 2.5 times as long.
struct ArenaModel {
  double call = 0.1;      ///< microseconds of a rank in a collective, whatever it moves
  double meeting = 0.3;   ///< microseconds until a core sees what another has published: barrier, 2 ranks, less `call`
  double turn = 1.4;      ///< microseconds, when a core goes from a rank that waits to the next: barrier, 4 and 8 ranks
  double access = 0.038;  ///< nanoseconds a byte read or written in a rank's buffers: all_reduce of 64K to 16M, 2 ranks
  double staged = 0.038;  ///< the same in memory that ranks share
  double pull = 0.095;    ///< nanoseconds a byte copied out of another process: scatter of 16M, 2 ranks
};

/// Microseconds, rank 0 being the root; the ranks of the question are on one host with so many cores. Nothing: they
/// are too many for an arena.
std::optional<double> arena_microseconds(const Question& question, Algorithm algorithm, int cores,
                                         const ArenaModel& model = {});

}  // namespace rondo::bench
