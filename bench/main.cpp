#include <optional>

#include <fmt/format.h>

#include <rondo/barrier.hpp>
#include <rondo/init.hpp>
#include <rondo/tuning.hpp>

#include "bench/carriers.hpp"
#include "bench/command.hpp"
#include "bench/compare/compare_command.hpp"
#include "bench/compare/loop.hpp"
#include "bench/exercises.hpp"
#include "bench/kernels.hpp"
#include "bench/launch.hpp"
#include "bench/neighbour.hpp"
#include "bench/probe/crew.hpp"
#include "bench/probe/probe_command.hpp"
#include "bench/raw/raw_command.hpp"
#include "bench/report.hpp"
#include "bench/rondo_subject.hpp"
#include "bench/session.hpp"
#include "bench/tune/explain_command.hpp"
#include "bench/tune/tune_command.hpp"

namespace rondo::bench {
namespace {

Communicator join(std::optional<Transport> transport) {
  Config config = Config::from(process_environment());
  if (transport) config.transport = *transport;
  InitOptions options;
  options.config = config;
  return init(options);
}

int operation_command(const Settings& settings) {
  check_device(settings.device);
  if (launched_rank() == 0) check_reports(settings);
  Communicator world = join(settings.transport);

  try {
    check_against(settings, world.size());
  } catch (const UsageError& error) {
    // Nobody ends before rank 0 has said why: a launcher stops the others as soon as one has failed.
    if (world.rank() == 0) fmt::print(stderr, "rondo-bench: {}\n", error.what());
    barrier(world);
    return kExitUsage;
  }
  RondoFabric fabric(world);
  return run_subject(fabric, rondo_subject(world, settings), settings);
}

/// What `compare` starts, under rondo-run.
int loops_command(const std::vector<std::string>& arguments) {
  const LoopSettings settings = parse_loop_settings("rondo-bench loops", arguments);
  check_device(settings.device);
  Communicator world = join(std::nullopt);
  RondoFabric fabric(world);
  const std::string transport = names_of(carriers_in_use(world));
  std::string library = fmt::format("rondo {}", version());
  if (settings.device) library += fmt::format(", memory of devices: {}", names_of(device_carriers_in_use(world)));
  return run_loops(fabric, {transport, library}, settings, [&world](const Settings& of_loop, const Shape& shape) {
    return make_exercise(world, of_loop, shape);
  });
}

int tuning_command(const std::vector<std::string>& arguments) {
  constexpr const char* kUsage = "rondo-bench tuning: prints which algorithm is chosen for which sizes and ranks.\n";
  if (!arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help")) throw HelpAsked(kUsage);
  if (!arguments.empty()) throw UsageError(fmt::format("tuning takes no arguments, got '{}'", arguments[0]));
  const std::string own = Config::from(process_environment()).tuning_file;
  if (!own.empty()) fmt::print("# first those of {}\n{}\n", own, print_tuning_rules(read_tuning_rules(own)));
  fmt::print("{}", print_tuning_rules(tuning_table()));
  return kExitGood;
}

int bench_command(const std::vector<std::string>& arguments) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (first == "--version") throw HelpAsked(fmt::format("rondo-bench {}\n", version()));
  if (first == "tuning") return tuning_command(rest);
  if (first == "probe") return probe_command(rest);
  if (first == "probe-part") return probe_part_command(rest);
  if (first == "kernels") return kernels_command(rest);
  if (first == "neighbour") return neighbour_command(rest);
  if (first == "raw") return raw_command(rest);
  if (first == "loops") return loops_command(rest);
  if (first == "compare") return compare_command(rest);
  if (first == "tune") return tune_command(rest);
  if (first == "explain" || first == "--explain") return explain_command(rest);

  const Settings settings = parse_settings(arguments);
  if (settings.ranks && !settings.started) start_ranks(settings, arguments);
  return operation_command(settings);
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  return rondo::bench::run_command("rondo-bench", argc, argv, rondo::bench::bench_command);
}
