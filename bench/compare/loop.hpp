#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

// How `compare`, `tune` and `explain --measure` time, on rondo and on every other library alike:
//
//  - A loop calls one operation again and again with nothing between: no barrier, no look at the clock. Each rank
//    divides its loop's duration by the iterations; the time of the loop is the longest over the ranks.
//  - So an operation in which a rank may run ahead (broadcast, reduce, scatter, gather) counts with what its library
//    lets be on its way at once.
//  - Latency is half of a round trip, timed by rank 0.
//  - One call before the loop is checked; then the number of iterations is found that takes about the time asked for.
//
// The programs that run loops print a line each, which `read_line` understands.

/// One loop to run: an operation at a size, for rondo perhaps with an algorithm.
struct Loop {
  Operation operation = Operation::all_reduce;
  std::size_t bytes = 0;  ///< as `shape_of` takes them
  Algorithm algorithm = Algorithm::automatic;
  std::size_t chunk_bytes = 0;  ///< 0: the table's

  friend auto operator<=>(const Loop&, const Loop&) = default;
};

/// "all_reduce:65536", with an algorithm "all_reduce:65536:ring:4096".
std::string to_string(const Loop& loop);
/// Throws UsageError.
Loop parse_loop(std::string_view text);

/// What a program is told that runs loops.
struct LoopSettings {
  std::vector<Loop> loops;
  double seconds = 0.1;   ///< about, for each
  int ranks = 0;          ///< of a program that starts its own ranks
  bool allocate = false;  ///< rondo: the buffers of collectives are from rondo::allocate
  bool device = false;    ///< buffers in the memory of each rank's CUDA device
};

/// `--loops LIST --seconds S -n RANKS --allocate --device WHERE`. Throws UsageError.
LoopSettings parse_loop_settings(const std::string& program, const std::vector<std::string>& arguments);
/// The same of a program whose buffers are on the host alone.
LoopSettings parse_host_loop_settings(const std::string& program, const std::vector<std::string>& arguments);
/// The same the other way.
std::vector<std::string> to_arguments(const LoopSettings& settings);

/// The library as it introduces itself.
struct Introduction {
  std::string transport;  ///< "tcp"; "-" where the library does not say
  std::string library;    ///< "rondo 0.1.0"
};

/// `settings` are of one loop.
using MakeExercise = std::function<std::unique_ptr<Exercise>(const Settings& settings, const Shape& shape)>;

/// Runs every loop, rank 0 prints. Returns the exit status.
int run_loops(Fabric& fabric, const Introduction& introduction, const LoopSettings& settings,
              const MakeExercise& make_exercise);

/// The longest over the ranks of the mean seconds of an iteration; the same on every rank. `wrong` gets the wrong
/// elements of the first call, over all ranks.
double time_loop(Fabric& fabric, Exercise& exercise, double seconds, std::size_t& wrong);

/// One line of what a program printed that runs loops.
struct Line {
  enum class Kind { ready, time, other };
  Kind kind = Kind::other;
  Introduction introduction;  ///< of `ready`
  Loop loop;                  ///< of `time`
  double microseconds = 0;
  std::size_t wrong = 0;
};
Line read_line(const std::string& text);

}  // namespace rondo::bench
