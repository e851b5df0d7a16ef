#pragma once

#include <cstdint>

#include <rondo/cost.hpp>

namespace rondo::simulation {

/// Virtual time in picoseconds.
using Time = std::int64_t;
inline constexpr Time kNanosecond = 1000;
inline constexpr Time kMicrosecond = 1000 * kNanosecond;
/// 104 days, and whatever is longer.
inline constexpr Time kForever = 9'000'000'000'000 * kMicrosecond;

/// The LogGP model of a network (Alexandrov, Ionescu, Schauser and Scheiman, 1995), with a cost of reducing. The
/// defaults are a fast network of the day; what a message costs besides its bytes is 2 overhead + latency.
///
///     sender      |o|== k G ==|              port busy for k G, the next message g later
///                    `---- L ----.
///     receiver                   |o|         after the last byte; the port is busy alike
struct LogGP {
  Time latency = 5 * kMicrosecond;   ///< L: of the wire
  Time overhead = 1 * kMicrosecond;  ///< o: of the processor, for a send and for a receive
  Time gap = 2 * kMicrosecond;       ///< g: between messages of one port
  double gap_per_byte = 100.0;       ///< G, in picoseconds: 100 are 10 GB/s
  double reduce_per_byte = 70.0;     ///< of the processor, in picoseconds

  constexpr Time transfer(std::uint64_t bytes) const { return scaled(gap_per_byte, bytes); }
  constexpr Time reduction(std::uint64_t bytes) const { return scaled(reduce_per_byte, bytes); }

  /// What the formula says, of a cost in bytes.
  constexpr Time time_of(const Cost& cost) const {
    const double about = static_cast<double>(cost.steps) * static_cast<double>(latency + 2 * overhead) +
                         static_cast<double>(cost.queued) * static_cast<double>(gap) +
                         gap_per_byte * static_cast<double>(cost.carried) +
                         reduce_per_byte * static_cast<double>(cost.reduced);
    if (about >= static_cast<double>(kForever)) return kForever;
    return static_cast<Time>(cost.steps) * (latency + 2 * overhead) + static_cast<Time>(cost.queued) * gap +
           transfer(cost.carried) + reduction(cost.reduced);
  }

 private:
  static constexpr Time scaled(double rate, std::uint64_t bytes) {
    const double exact = rate * static_cast<double>(bytes);
    const auto whole = static_cast<Time>(exact);
    return exact - static_cast<double>(whole) < 0.5 ? whole : whole + 1;
  }
};

}  // namespace rondo::simulation
