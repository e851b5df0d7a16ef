#include "bench/neighbour.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rondo/barrier.hpp>
#include <rondo/error.hpp>
#include <rondo/init.hpp>

#include "bench/command_line.hpp"
#include "bench/launch.hpp"
#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct NeighbourSettings {
  int ranks = 2 * detail::cores_of_host();
  double seconds = 1;
  bool started = false;
  std::string progress_path;  ///< as every command that starts ranks is given; nothing here takes long
};

NeighbourSettings parse_neighbour_settings(const std::vector<std::string>& arguments) {
  NeighbourSettings settings;
  CLI::App app{
      "Rank 0 computes a fixed amount while the others wait for it in recv and in a barrier, and when they have left.",
      "rondo-bench neighbour"};
  app.add_option("-n,--ranks", settings.ranks, "start so many, outside of rondo-run (default: twice the cores)")
      ->check(CLI::Range(2, 1024));
  app.add_option("--seconds", settings.seconds, "to compute, about, each time")
      ->check(check_positive)
      ->capture_default_str();
  app.add_flag("--started", settings.started)->group("");
  app.add_option("--progress", settings.progress_path)->group("");
  parse(app, arguments);
  return settings;
}

/// Steps of which each needs the one before.
double seconds_to_compute(std::uint64_t steps) {
  const auto begin = Clock::now();
  std::uint64_t state = steps;
  for (std::uint64_t i = 0; i < steps; ++i) state = state * 6364136223846793005U + 1442695040888963407U;
  [[maybe_unused]] volatile std::uint64_t result = state;
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Doubled until they take a tenth of that time, which tells how many take all of it.
std::uint64_t steps_for(double seconds) {
  std::uint64_t steps = 1 << 20;
  double took = seconds_to_compute(steps);
  while (took < seconds / 10) took = seconds_to_compute(steps *= 2);
  return static_cast<std::uint64_t>(static_cast<double>(steps) * seconds / took);
}

void wait_until_left(Communicator& world, int rank) {
  std::byte nothing{};
  try {
    world.recv(std::span(&nothing, 1), rank);
  } catch (const Error& error) {
    if (error.code() != Errc::peer_failed) throw;
  }
}

int compute_beside_others(Communicator& world, double seconds) {
  std::byte word{};
  for (int rank = 1; rank < world.size(); ++rank) world.recv(std::span(&word, 1), rank);  // it is about to wait
  const std::uint64_t steps = steps_for(seconds);
  const double beside_recv = seconds_to_compute(steps);
  for (int rank = 1; rank < world.size(); ++rank) world.send(std::span(&word, 1), rank);  // on to the barrier
  const double beside_barrier = seconds_to_compute(steps);
  barrier(world);
  for (int rank = 1; rank < world.size(); ++rank) wait_until_left(world, rank);
  const double alone = seconds_to_compute(steps);

  fmt::print("# one rank computes a fixed amount; {} cores\n", detail::cores_of_host());
  const auto print = [&](const std::string& when, double took) {
    fmt::print("{:<36}{:>9.4f} s, {:.3f} of that alone\n", when, took, took / alone);
  };
  print(fmt::format("while {} others wait in recv", world.size() - 1), beside_recv);
  print(fmt::format("while {} others wait in a barrier", world.size() - 1), beside_barrier);
  print("when they have left", alone);
  return std::fflush(stdout) == 0 ? kExitGood : kExitFailed;
}

}  // namespace

int neighbour_command(const std::vector<std::string>& arguments) {
  const NeighbourSettings settings = parse_neighbour_settings(arguments);
  if (!settings.started && std::getenv("RONDO_RANK") == nullptr) {
    Settings start;
    start.ranks = settings.ranks;
    std::vector<std::string> again{"neighbour"};
    again.insert(again.end(), arguments.begin(), arguments.end());
    start_ranks(start, again);
  }
  Communicator world = init();
  if (world.rank() == 0) return compute_beside_others(world, settings.seconds);
  std::byte word{};
  world.send(std::span(&word, 1), 0);
  world.recv(std::span(&word, 1), 0);
  barrier(world);
  return kExitGood;
}

}  // namespace rondo::bench
