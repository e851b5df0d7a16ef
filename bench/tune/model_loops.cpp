#include "bench/tune/model_loops.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

#include <fmt/format.h>

#include "bench/tune/candidates.hpp"
#include "bench/tune/machine.hpp"
#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

/// Short ones wait in a line or a socket; long ones are copied through the ring while that is read, or in two halves by
/// the receiver and the sender, who meet before and after.
double one_way(std::uint64_t bytes, Path path, const Constants& constants) {
  constexpr double kNanoseconds = 1e-3;
  const double length = static_cast<double>(bytes) * kNanoseconds;
  if (path == Path::tcp) {
    const simulation::LogGP& tcp = constants.tcp;
    return static_cast<double>(tcp.latency + 2 * tcp.overhead + tcp.transfer(bytes)) / simulation::kMicrosecond;
  }
  const ArenaModel& arena = constants.arena;
  return arena.meeting + std::min(2 * arena.access * length, arena.meeting + arena.pull / 2 * length);
}

}  // namespace

bool has_model(const Loop& loop) { return loop.operation == Operation::latency || facts(loop.operation).synchronises; }

double least_microseconds(const Loop& loop, int ranks, const Place& place, const Machine& machine) {
  const Question question = question_of(loop.operation, loop.bytes, place.path, ranks, place.cores);
  const Constants constants = machine.constants(question.bytes, ranks);
  if (loop.operation == Operation::latency) return one_way(question.bytes, place.path, constants);
  double least = std::numeric_limits<double>::infinity();
  for (const Choice& choice : candidates_for(question)) {
    if (question.one_host && !shares_memory(choice.algorithm)) continue;
    if (const auto time = predicted_microseconds(question, choice, place, constants)) least = std::min(least, *time);
  }
  return least;
}

int print_model(const LoopSettings& settings, Path path) {
  const Machine machine;
  fmt::print("ready {} the model, of this machine\n", to_string(path));
  for (const Loop& loop : settings.loops) {
    const double time = least_microseconds(loop, settings.ranks, {path, 1, detail::usable_cores()}, machine);
    fmt::print("time {} {:.4f} 0\n", to_string(loop), time);
  }
  return std::fflush(stdout) == 0 ? kExitGood : kExitFailed;
}

}  // namespace rondo::bench
