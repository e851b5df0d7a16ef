#include "bench/raw/raw_command.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <rondo/config.hpp>

#include "bench/compare/loop.hpp"
#include "bench/raw/forked_ranks.hpp"
#include "bench/raw/memory_calls.hpp"
#include "bench/raw/socket_calls.hpp"
#include "bench/report.hpp"
#include "bench/session.hpp"
#include "bench/tune/model_loops.hpp"

namespace rondo::bench {
namespace {

Subject raw_subject(SocketRanks& ranks, const Settings& settings) {
  const auto exercise = [&ranks, &settings](const Shape& shape) { return bare_exercise(ranks, settings, shape); };
  return {"bare sockets that spin", "tcp", [](const Shape&) { return std::string("none"); }, exercise};
}

/// Runs `whole` on the parent and `part` on its children, whose only result is their part in the parent's.
template <typename Whole, typename Part>
int on_all(const Fabric& ranks, Whole&& whole, Part&& part) {
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
  return join_ranks() ? status : kExitFailed;
}

// What `compare` starts.

LoopSettings parse_raw_loops(const std::string& command, const std::vector<std::string>& arguments) {
  LoopSettings settings = parse_host_loop_settings("rondo-bench raw " + command, arguments);
  if (settings.ranks < 2) throw UsageError(fmt::format("-n: got {}, wanted at least 2", settings.ranks));
  return settings;
}

template <typename Ranks>
int bare_loops(const std::string& command, const Introduction& introduction,
               const std::vector<std::string>& arguments) {
  const LoopSettings settings = parse_raw_loops(command, arguments);
  Ranks ranks(settings.ranks);
  const auto run = [&] {
    return run_loops(ranks, introduction, settings, [&ranks](const Settings& of_loop, const Shape& shape) {
      return bare_exercise(ranks, of_loop, shape);
    });
  };
  return on_all(ranks, run, run);
}

/// The first word is the path.
int model_loops(const std::vector<std::string>& arguments) {
  const Path path = parse_path("raw model-loops", arguments.empty() ? "" : arguments[0]);
  return print_model(parse_raw_loops("model-loops", {arguments.begin() + 1, arguments.end()}), path);
}

}  // namespace

int raw_command(const std::vector<std::string>& arguments) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  if (first == "loops")
    return bare_loops<SocketRanks>(first, {"tcp", "bare sockets that spin"}, {arguments.begin() + 1, arguments.end()});
  if (first == "memory-loops")
    return bare_loops<MemoryRanks>(first, {"shm", "bare lines of shared memory and process_vm_readv"},
                                   {arguments.begin() + 1, arguments.end()});
  if (first == "model-loops") return model_loops({arguments.begin() + 1, arguments.end()});
  const Settings settings = parse_settings(arguments);
  if (!facts(settings.operation).point_to_point())
    throw UsageError(fmt::format("raw measures latency and bandwidth, not {}", facts(settings.operation).name));
  if (settings.type != ElementType::float32)
    throw UsageError(fmt::format("raw sends float, not {}", to_string(settings.type)));
  if (settings.transport.value_or(Transport::tcp) != Transport::tcp)
    throw UsageError(fmt::format("raw measures tcp, not {}", to_string(*settings.transport)));
  if (settings.allocate) throw UsageError("raw has buffers of its own, none of rondo::allocate");
  if (settings.device) throw UsageError("raw sends memory of the host, not of a device");
  if (settings.ranks.value_or(2) != 2) throw UsageError(fmt::format("raw has 2 ranks, not {}", *settings.ranks));
  check_reports(settings);

  SocketRanks ranks(2);
  const Subject subject = raw_subject(ranks, settings);
  return on_all(
      ranks, [&] { return run_subject(ranks, subject, settings); },
      [&] { return exit_status(run_sizes(ranks, subject, settings)); });
}

}  // namespace rondo::bench
