#pragma once

#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/call.hpp>

namespace rondo {

/// Chunks in flight at once: while one is reduced, the next is on its way.
inline constexpr int kDefaultLanes = 2;
/// No operation uses more; lanes are numbered from 0.
inline constexpr int kMaxLanes = 8;

/// One collective, as decided: everything that `run_collective` needs beside the port. It is the same on every rank
/// (but for all_to_all's counts), and must outlive the operation.
///
/// | collective     | blocks             | input                   | output                          |
/// |----------------|--------------------|-------------------------|---------------------------------|
/// | all_reduce     | even(count, size)  | total                   | total                           |
/// | reduce         | even(count, size)  | total                   | total, at the root only         |
/// | broadcast      | even(count, size)  | is the output           | total; at the root what is sent |
/// | scatter        | a share per rank   | total, at the root only | own block                       |
/// | gather         | a share per rank   | own block               | total, at the root only         |
/// | all_gather     | a share per rank   | own block               | total; in place: own block set  |
/// | reduce_scatter | a share per rank   | total, only read        | own block                       |
/// | all_to_all     | what I send        | total, only read        | total of `recv_blocks`          |
/// | barrier        | -                  | -                       | -                               |
struct Plan {
  Collective collective = Collective::none;
  Algorithm algorithm = Algorithm::automatic;  ///< a decided one: `automatic` cannot run
  int root = 0;
  bool commutative = true;
  bool deterministic = false;  ///< operands are combined from the left, in rank order
  std::size_t chunk = 0;       ///< elements per pipelined chunk; 0: all in one piece
  int lanes = kDefaultLanes;
  Blocks blocks{};
  Blocks recv_blocks{};        ///< all_to_all: what I receive from each rank
  bool by_own_counts = false;  ///< all_to_all: no rank knows what others give each other
};

/// Elements that all ranks together read of their inputs and write to their outputs. In place, 0 where every output has
/// just been read as input: it is in the caches as far as it can be.
inline std::size_t elements_touched(const Plan& plan, int ranks, bool in_place) noexcept {
  const std::size_t total = plan.blocks.total();
  const auto size = static_cast<std::size_t>(ranks);
  switch (plan.collective) {
    case Collective::all_reduce:
    case Collective::all_to_all: return in_place ? 0 : 2 * size * total;
    case Collective::reduce: return in_place ? 0 : (1 + size) * total;
    case Collective::broadcast: return size * total;
    case Collective::all_gather: return (in_place ? size : 1 + size) * total;
    case Collective::reduce_scatter: return (1 + size) * total;
    default: return 2 * total;
  }
}

}  // namespace rondo
