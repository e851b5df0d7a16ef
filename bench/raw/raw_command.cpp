#include "bench/raw/raw_command.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include "bench/compare/loop.hpp"
#include "bench/point_to_point.hpp"
#include "bench/raw/memory_calls.hpp"
#include "bench/raw/socket_pair.hpp"
#include "bench/report.hpp"
#include "bench/session.hpp"

namespace rondo::bench {
namespace {

std::unique_ptr<Exercise> raw_exercise(const SocketPair& pair, const Settings& settings, const Shape& shape) {
  return point_to_point_exercise<float>(RawWire(pair), pair.rank(), settings, shape);
}

Subject raw_subject(const SocketPair& pair, const Settings& settings) {
  const auto exercise = [&pair, &settings](const Shape& shape) { return raw_exercise(pair, settings, shape); };
  return {"bare sockets that spin", "tcp", [](const Shape&) { return std::string("none"); }, exercise};
}

/// Runs `whole` on the parent and `part` on its children, whose only result is their part in the parent's.
template <typename Forked, typename Whole, typename Part>
int on_all(Forked& ranks, Whole&& whole, Part&& part) {
  if (ranks.rank() != 0) {
    int status = kExitFailed;
    try {
      status = part();
    } catch (const std::exception& error) {
      fmt::print(stderr, "rondo-bench raw: rank {}: {}\n", ranks.rank(), error.what());
    }
    _exit(status);
  }
  const int status = whole();
  return ranks.join() ? status : kExitFailed;
}

/// What `compare` starts: loops over sockets.
int socket_loops(const std::vector<std::string>& arguments) {
  const LoopSettings settings = parse_host_loop_settings("rondo-bench raw loops", arguments);
  SocketPair pair;
  const auto run = [&] {
    return run_loops(
        pair, {"tcp", "bare sockets that spin"}, settings,
        [&pair](const Settings& of_loop, const Shape& shape) { return raw_exercise(pair, of_loop, shape); });
  };
  return on_all(pair, run, run);
}

/// The same through shared memory.
int memory_loops(const std::vector<std::string>& arguments) {
  const LoopSettings settings = parse_host_loop_settings("rondo-bench raw memory-loops", arguments);
  MemoryRanks ranks(settings.ranks);
  const auto run = [&] {
    return run_loops(
        ranks, {"shm", "bare lines of shared memory and process_vm_readv"}, settings,
        [&ranks](const Settings& of_loop, const Shape& shape) { return bare_exercise(ranks, of_loop, shape); });
  };
  return on_all(ranks, run, run);
}

}  // namespace

int raw_command(const std::vector<std::string>& arguments) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  if (first == "loops") return socket_loops({arguments.begin() + 1, arguments.end()});
  if (first == "memory-loops") return memory_loops({arguments.begin() + 1, arguments.end()});
  const Settings settings = parse_settings(arguments);
  if (!facts(settings.operation).point_to_point())
    throw UsageError(fmt::format("raw measures latency and bandwidth, not {}", facts(settings.operation).name));
  if (settings.type != ElementType::float32)
    throw UsageError(fmt::format("raw sends float, not {}", to_string(settings.type)));
  if (settings.device) throw UsageError("raw sends memory of the host, not of a device");
  if (settings.ranks.value_or(2) != 2) throw UsageError(fmt::format("raw has 2 ranks, not {}", *settings.ranks));
  check_reports(settings);

  SocketPair pair;
  const Subject subject = raw_subject(pair, settings);
  return on_all(
      pair, [&] { return run_subject(pair, subject, settings); },
      [&] { return exit_status(run_sizes(pair, subject, settings)); });
}

}  // namespace rondo::bench
