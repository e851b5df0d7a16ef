#include "bench/raw/raw_command.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include "bench/point_to_point.hpp"
#include "bench/raw/socket_pair.hpp"
#include "bench/report.hpp"
#include "bench/session.hpp"

namespace rondo::bench {
namespace {

Subject raw_subject(const SocketPair& pair, const Settings& settings) {
  const auto exercise = [&pair, &settings](const Shape& shape) -> std::unique_ptr<Exercise> {
    const RawWire wire(pair);
    if (settings.operation == Operation::latency)
      return std::make_unique<PingPong<float, RawWire>>(wire, pair.rank(), shape.count);
    return std::make_unique<Stream<float, RawWire>>(wire, pair.rank(), shape.count, window_for(settings, shape.bytes));
  };
  return {"bare sockets that spin", "tcp", [](const Shape&) { return std::string("none"); }, exercise};
}

}  // namespace

int raw_command(const std::vector<std::string>& arguments) {
  const Settings settings = parse_settings(arguments);
  if (!facts(settings.operation).point_to_point())
    throw UsageError(fmt::format("raw measures latency and bandwidth, not {}", facts(settings.operation).name));
  if (settings.type != ElementType::float32)
    throw UsageError(fmt::format("raw sends float, not {}", to_string(settings.type)));
  if (settings.ranks.value_or(2) != 2) throw UsageError(fmt::format("raw has 2 ranks, not {}", *settings.ranks));
  check_reports(settings);

  SocketPair pair;
  if (pair.rank() == 1) {
    // The child's only result is its part in the parent's.
    int status = kExitFailed;
    try {
      status = exit_status(run_sizes(pair, raw_subject(pair, settings), settings));
    } catch (const std::exception& error) {
      fmt::print(stderr, "rondo-bench raw: rank 1: {}\n", error.what());
    }
    _exit(status);
  }
  const int status = run_subject(pair, raw_subject(pair, settings), settings);
  return pair.join() ? status : kExitFailed;
}

}  // namespace rondo::bench
