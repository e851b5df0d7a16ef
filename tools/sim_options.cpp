#include "tools/sim_options.hpp"

#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/error.hpp>
#include <rondo/plan.hpp>
#include <rondo/size.hpp>
#include <rondo/tuning.hpp>

namespace rondo::tools {
namespace {

/// What the options are called before they are understood.
struct Words {
  std::string operation;
  std::string size = "1M";
  std::string chunk;
  std::string max_messages = "100M";
  std::vector<std::string> algorithms;
  double latency = 0;
  double overhead = 0;
  double gap = 0;
};

/// Times are read in picoseconds, so that a fraction of a nanosecond for a byte is a plain number.
CLI::Validator in_picoseconds() {
  const std::map<std::string, double> units{{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}};
  return CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::UNIT_REQUIRED, "TIME");
}

void add_options(CLI::App& app, SimOptions& options, Words& words) {
  app.set_version_flag("--version", std::string("rondo-sim " RONDO_VERSION));
  app.add_option("operation", words.operation,
                 "all_reduce, reduce, broadcast, scatter, gather, all_gather, reduce_scatter, all_to_all or barrier")
      ->required();
  app.add_option("-n,--ranks", options.ranks, "ranks to simulate")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("-b,--size", words.size, "bytes of the whole vector, like 64K or 1M")->capture_default_str();
  app.add_option("-a,--algorithm", words.algorithms, "only these, separated by commas; default: all that it has")
      ->delimiter(',');
  app.add_option("--chunk", words.chunk, "bytes of a pipelined chunk, 0: no chunks; default: the tuning table's");
  app.add_option("--lanes", options.lanes, "chunks in flight")->capture_default_str()->check(CLI::Range(1, kMaxLanes));
  app.add_option("--root", options.root, "of rooted operations")->capture_default_str();
  app.add_flag("!--ordered", options.commutative, "the operator does not commute");

  const std::string group = "Network (times with a unit: ps, ns, us, ms, s)";
  const auto add_time = [&](const char* name, double& value, const char* text, const char* shown) {
    app.add_option(name, value, text)->transform(in_picoseconds())->group(group)->default_str(shown);
  };
  add_time("--latency", words.latency, "L: of the wire", "5us");
  add_time("--overhead", words.overhead, "o: of the processor, for each send and each receive", "1us");
  add_time("--gap", words.gap, "g: between two messages at one port", "2us");
  add_time("--gap-per-byte", options.model.gap_per_byte, "G: of the wire", "0.1ns");
  add_time("--reduce-per-byte", options.model.reduce_per_byte, "of the processor, to combine", "0.07ns");

  app.add_option("--max-messages", words.max_messages, "more are not simulated, the formula is printed alone")
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
}

void understand(SimOptions& options, const Words& words) {
  const auto collective = parse_collective(words.operation);
  if (!collective || algorithms_of(*collective).empty()) {
    throw Error(Errc::invalid_argument, fmt::format("\"{}\" is no operation, wanted all_reduce, reduce, broadcast, "
                                                    "scatter, gather, all_gather, reduce_scatter, all_to_all or "
                                                    "barrier",
                                                    words.operation));
  }
  options.collective = *collective;
  options.bytes = *collective == Collective::barrier ? 0 : parse_size(words.size);
  // Every pair of ranks has the same to exchange.
  if (*collective == Collective::all_to_all) options.bytes -= options.bytes % static_cast<std::size_t>(options.ranks);
  options.max_messages = parse_size(words.max_messages);
  if (!words.chunk.empty()) options.chunk_bytes = parse_size(words.chunk);
  if (options.root < 0 || options.root >= options.ranks) {
    throw Error(Errc::invalid_argument,
                fmt::format("root: got {}, wanted a rank from 0 to {}", options.root, options.ranks - 1));
  }
  options.model.latency = static_cast<simulation::Time>(words.latency);
  options.model.overhead = static_cast<simulation::Time>(words.overhead);
  options.model.gap = static_cast<simulation::Time>(words.gap);

  const Question question{options.collective, options.bytes, options.ranks, false, options.commutative};
  for (const std::string& name : words.algorithms) {
    const auto algorithm = parse_algorithm(name);
    if (!algorithm) throw Error(Errc::invalid_argument, fmt::format("\"{}\" is no algorithm", name));
    options.algorithms.push_back(choose(question, *algorithm).algorithm);
  }
  if (!words.algorithms.empty()) return;
  for (const Algorithm algorithm : algorithms_of(options.collective)) {
    if (is_valid(options.collective, algorithm, options.commutative)) options.algorithms.push_back(algorithm);
  }
}

}  // namespace

std::optional<SimOptions> parse_sim_options(int argc, const char* const* argv, int& exit_status) {
  SimOptions options;
  options.lanes = kDefaultLanes;
  Words words;
  words.latency = static_cast<double>(options.model.latency);
  words.overhead = static_cast<double>(options.model.overhead);
  words.gap = static_cast<double>(options.model.gap);
  CLI::App app("Predicts what a collective takes, by running the library's own algorithms on a simulated network.",
               "rondo-sim");
  add_options(app, options, words);
  try {
    app.parse(argc, argv);
    understand(options, words);
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error) == 0 ? 0 : 2;
    return std::nullopt;
  } catch (const Error& error) {
    fmt::print(stderr, "rondo-sim: {}\n", error.cause());
    exit_status = 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace rondo::tools
