#pragma once

#include <algorithm>
#include <cstdint>

namespace rondo {

/// What a cost formula is asked for. Counts are elements (or bytes, if the caller prefers: the formulas are linear).
struct Shape {
  int size = 1;
  std::uint64_t count = 0;  ///< of the plan's blocks together, shared out evenly
  std::uint64_t chunk = 0;  ///< of the pipeline; 0: all in one piece
  int lanes = 1;            ///< of the pipeline
  int root = 0;
  bool commutative = true;

  constexpr std::uint64_t block() const {  ///< the largest
    const auto ranks = static_cast<std::uint64_t>(size);
    return (count + ranks - 1) / ranks;
  }
  constexpr bool even_blocks() const { return count % static_cast<std::uint64_t>(size) == 0; }
  /// Lanes that find work.
  constexpr std::uint64_t lanes_of(std::uint64_t chunks) const {
    return std::min(chunks, static_cast<std::uint64_t>(lanes));
  }
};

/// What an algorithm costs, as the sum of what lies on its longest chain of messages, beside what it costs each rank.
///
/// In the LogGP model its time is `steps * (latency + 2 overhead) + queued * gap + carried * gap_per_byte`, and
/// `reduced` times the cost of combining one element. It is meant for messages that keep the ports busier than the
/// processors, and gaps that are no longer than a message takes.
///
/// Exact, unless it says `at_most`: where blocks do not come out even, several lanes hide each other's latency, or
/// messages come to one rank from subtrees of different heights, there is no closed form, and what is stated is that
/// of a run that waits for more.
struct Cost {
  std::uint64_t steps = 0;     ///< messages of the chain that wait for the one before
  std::uint64_t queued = 0;    ///< messages that only queue behind another at the same port
  std::uint64_t carried = 0;   ///< elements in all of them
  std::uint64_t reduced = 0;   ///< elements combined along the chain
  std::uint64_t messages = 0;  ///< sent by the busiest rank
  std::uint64_t sent = 0;      ///< elements sent by the busiest rank
  std::uint64_t total = 0;     ///< messages of all ranks, to know what a simulation takes
  std::uint64_t scratch = 0;   ///< elements, on the neediest rank
  bool at_most = false;        ///< upper bounds all

  /// One phase after the other.
  constexpr Cost operator+(const Cost& next) const {
    return {steps + next.steps,     queued + next.queued,     carried + next.carried,
            reduced + next.reduced, messages + next.messages, sent + next.sent,
            total + next.total,     scratch + next.scratch,   at_most || next.at_most};
  }
  friend constexpr bool operator==(const Cost&, const Cost&) = default;
};

}  // namespace rondo
