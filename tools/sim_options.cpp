#include "tools/sim_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string_view>

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

[[noreturn]] void reject(std::string_view option, std::string_view got, std::string_view wanted) {
  throw Error(Errc::invalid_argument, fmt::format("{}: got \"{}\", wanted {}", option, got, wanted));
}

/// In picoseconds, so that a fraction of a nanosecond for a byte is a plain number.
double time_of(const std::string& text, std::string_view option) {
  constexpr std::array<std::pair<std::string_view, double>, 5> units{
      {{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}}};
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string_view rest = end;
  const auto unit = std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.first == rest; });
  constexpr double kMost = 1e18;
  if (failed != std::errc{} || unit == units.end() || !(number >= 0) || number * unit->second > kMost) {
    reject(option, text, "a time with its unit (ps, ns, us, ms or s), like 1.5us");
  }
  return number * unit->second;
}

std::size_t size_of(const std::string& text, std::string_view option) {
  try {
    return parse_size(text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", option, error.cause()));
  }
}

std::string names_of(std::span<const Algorithm> algorithms) {
  std::string names;
  for (const Algorithm algorithm : algorithms) names += (names.empty() ? "" : ", ") + std::string(to_string(algorithm));
  return names;
}

/// What goes through shared memory is not.
bool is_simulated(Algorithm algorithm) { return !shares_memory(algorithm) && algorithm != Algorithm::two_level; }

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
    app.add_option_function<std::string>(
           name, [name, &value](const std::string& typed) { value = time_of(typed, name); }, text)
        ->type_name("TIME")
        ->group(group)
        ->default_str(shown);
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
    reject("operation", words.operation,
           "all_reduce, reduce, broadcast, scatter, gather, all_gather, reduce_scatter, all_to_all or barrier");
  }
  options.collective = *collective;
  options.bytes = *collective == Collective::barrier ? 0 : size_of(words.size, "--size");
  constexpr std::size_t kMostBytes = std::size_t{1} << 50;
  if (options.bytes > kMostBytes) reject("--size", words.size, "at most 1024T");
  // Every pair of ranks has the same to exchange.
  if (*collective == Collective::all_to_all) {
    const auto ranks = static_cast<std::size_t>(options.ranks);
    if (options.bytes != 0 && options.bytes < ranks) {
      reject("--size", words.size, fmt::format("at least {} bytes, one for each rank", ranks));
    }
    options.bytes -= options.bytes % ranks;
  }
  options.max_messages = size_of(words.max_messages, "--max-messages");
  if (!words.chunk.empty()) options.chunk_bytes = size_of(words.chunk, "--chunk");
  if (options.root < 0 || options.root >= options.ranks) {
    reject("--root", std::to_string(options.root), fmt::format("a rank from 0 to {}", options.ranks - 1));
  }
  options.model.latency = static_cast<simulation::Time>(words.latency);
  options.model.overhead = static_cast<simulation::Time>(words.overhead);
  options.model.gap = static_cast<simulation::Time>(words.gap);

  const Question question{options.collective, options.bytes, options.ranks, false, options.commutative};
  for (const std::string& name : words.algorithms) {
    const auto algorithm = parse_algorithm(name);
    if (!algorithm) reject("--algorithm", name, "one of " + names_of(algorithms_of(options.collective)));
    if (!is_simulated(*algorithm)) {
      reject("--algorithm", name,
             fmt::format("one of {} ({} is not simulated)", names_of(algorithms_of(options.collective)), name));
    }
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
  } catch (const CLI::ExtrasError&) {
    fmt::print(stderr, "rondo-sim: unknown option {} (see rondo-sim --help)\n", app.remaining().front());
    exit_status = 2;
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    exit_status = error.get_exit_code() == 0 ? app.exit(error) : 2;
    if (exit_status != 0) fmt::print(stderr, "rondo-sim: {}\n", error.what());
    return std::nullopt;
  } catch (const Error& error) {
    fmt::print(stderr, "rondo-sim: {}\n", error.cause());
    exit_status = 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace rondo::tools
