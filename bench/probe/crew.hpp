#pragma once

#include <string>
#include <vector>

#include "bench/probe/figure.hpp"
#include "bench/probe/item.hpp"

namespace rondo::bench {

/// Of a process that finds no driver to answer with, and so of the probe.
inline constexpr int kExitCannotRun = 77;

struct CrewOutcome {
  std::vector<Figure> figures;
  int status = 0;      ///< of the first process that failed; 0: none did
  std::string reason;  ///< why it did; empty: no process failed
};

/// Starts `ranks` processes of this program for an item, by exec, since CUDA does not survive a fork; and ends them all
/// as soon as one has failed, or when they take too long. None is left behind. Throws std::system_error.
CrewOutcome run_crew(const Item& item, int ranks, bool quick);

/// What such a process does: `probe-part ITEM RANK RANKS PARENT [quick]`. Returns the exit status.
int probe_part_command(const std::vector<std::string>& arguments);

}  // namespace rondo::bench
