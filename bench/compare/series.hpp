#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/compare/child.hpp"
#include "bench/compare/core_distance.hpp"
#include "bench/compare/loop.hpp"

namespace rondo::bench {

struct Limits {
  double seconds = 10;        ///< for one loop
  double start_seconds = 30;  ///< until the program says that it is ready
};

/// Of one run of a loop.
struct Timing {
  double microseconds = 0;
  double core_distance = 0;  ///< how far, before the program or after it: see CoreDistance

  bool operator==(const Timing&) const = default;
};

/// What was learnt of some loops in one program, or in several starts of it.
struct Series {
  Introduction introduction;
  std::map<Loop, std::vector<Timing>> timings;
  /// Why a loop has no time: "over 10 s", "exit status 1: not enough memory". It is not tried again, nor, where it took
  /// too long, is its operation with more bytes.
  std::map<Loop, std::string> troubles;

  /// Of a loop, in microseconds, with cores that were near each other.
  std::vector<double> near_times_of(const Loop& loop, const CoreDistance& distance) const;
  /// With cores apart, too, where there are no others.
  std::vector<double> times_of(const Loop& loop, const CoreDistance& distance) const;
};

/// Runs the loops that are not in trouble, each once, and adds to `series`. `command_for` makes the command that runs
/// some of them: a program that breaks off, or is ended because a loop takes too long, is started again without it.
void run_series(const std::vector<Loop>& loops, const Limits& limits,
                const std::function<Command(const std::vector<Loop>&)>& command_for, Series& series);

/// The same once two cores are near each other, or a while has passed.
void run_series(const std::vector<Loop>& loops, const Limits& limits,
                const std::function<Command(const std::vector<Loop>&)>& command_for, Series& series,
                CoreDistance& distance);

}  // namespace rondo::bench
