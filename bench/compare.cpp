#include "bench/compare.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <sstream>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/launch.hpp"
#include "bench/program.hpp"
#include "bench/settings.hpp"
#include "bench/statistics.hpp"

namespace rondo::bench {
namespace {

constexpr std::size_t kSmall = 8;
constexpr std::size_t kMiddle = 64 << 10;
constexpr std::size_t kLarge = 16 << 20;

/// One start of a program: an operation at some sizes.
struct Run {
  std::string operation;
  int ranks;
  std::vector<std::size_t> sizes;
};

const std::array kRuns{
    Run{"latency", 2, {kSmall, kLarge}},
    Run{"bandwidth", 2, {kLarge}},
    Run{"all_reduce", 2, {kSmall, kMiddle, kLarge}},
    Run{"all_reduce", 4, {kSmall, kMiddle, kLarge}},
};

using Command = std::vector<std::string>;

struct Contender {
  std::string name;
  Command command;             ///< with the words OPERATION and RANKS for a run's; the sizes come after it
  bool only_messages = false;  ///< measures latency and bandwidth only
};

Command command_for(const Contender& contender, const Run& run) {
  Command command;
  for (const auto& word : contender.command)
    command.push_back(word == "RANKS" ? std::to_string(run.ranks) : word == "OPERATION" ? run.operation : word);
  std::string sizes;
  for (const std::size_t size : run.sizes) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  command.insert(command.end(), {"--sizes", sizes});
  return command;
}

/// Those that this machine has; says on standard output which are left out and why.
std::vector<Contender> contenders() {
  find_launcher();
  const std::string self = own_path();
  std::vector<Contender> found{{"rondo", {self, "OPERATION", "-n", "RANKS", "--transport", "tcp"}},
                               {"sockets", {self, "raw", "OPERATION"}, true}};
  const auto mpirun = find_on_path("mpirun");
  const auto mpi_loop = find_companion("mpi_loop", {"peers"});
  if (mpirun && mpi_loop) {
    found.push_back({"openmpi",
                     {*mpirun, "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,tcp", "--mca",
                      "btl_tcp_if_include", "lo", "-n", "RANKS", *mpi_loop, "OPERATION"}});
  } else {
    fmt::print("# openmpi is left out: {} is missing\n", mpirun ? "mpi_loop was not built, MPI" : "mpirun");
  }
  if (const auto gloo_loop = find_companion("gloo_loop", {"peers"})) {
    found.push_back({"gloo", {*gloo_loop, "OPERATION", "-n", "RANKS"}});
  } else {
    fmt::print("# gloo is left out: gloo_loop was not built, Gloo is missing\n");
  }
  return found;
}

void measure_round(const std::vector<Contender>& field, Samples& samples) {
  for (const Run& run : kRuns) {
    for (const Contender& contender : field) {
      if (contender.only_messages && run.operation == "all_reduce") continue;
      const Command command = command_for(contender, run);
      const Outcome outcome = run_program(command);
      if (outcome.status != 0) {
        std::string words;
        for (const auto& word : command) words += " " + word;
        throw std::runtime_error(fmt::format("compare: exit status {} from{}", outcome.status, words));
      }
      read_table(outcome.output, run.operation, run.ranks, samples[contender.name]);
    }
  }
}

std::string number(std::optional<double> value) { return value ? fmt::format("{:.2f}", *value) : "-"; }

std::string medians_table(const std::vector<Contender>& field, const Samples& samples) {
  std::string text = fmt::format("#{:>11}  {:>5}  {:>9}", "operation", "ranks", "size");
  for (const auto& contender : field) text += fmt::format("  {:>10}", contender.name);
  text += fmt::format("\n#{:>11}  {:>5}  {:>9}", "", "", "(B)");
  for (std::size_t i = 0; i < field.size(); ++i) text += fmt::format("  {:>10}", "(us)");
  text += "\n";
  for (const Run& run : kRuns) {
    for (const std::size_t bytes : run.sizes) {
      text += fmt::format("{:>12}  {:>5}  {:>9}", run.operation, run.ranks, bytes);
      for (const auto& contender : field)
        text += fmt::format("  {:>10}", number(median(samples, contender.name, {run.operation, run.ranks, bytes})));
      text += "\n";
    }
  }
  return text;
}

}  // namespace

void read_table(std::string_view table, const std::string& operation, int ranks,
                std::map<Cell, std::vector<double>>& into) {
  constexpr std::size_t kBytesColumn = 0;
  constexpr std::size_t kMedianColumn = 6;
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::vector<std::string> columns;
    for (std::string word; words >> word;) columns.push_back(word);
    if (columns.size() <= kMedianColumn)
      throw std::runtime_error(fmt::format("compare: not a line of results: {}", line));
    into[{operation, ranks, std::stoull(columns[kBytesColumn])}].push_back(std::stod(columns[kMedianColumn]));
  }
}

std::optional<double> median(const Samples& samples, std::string_view contender, const Cell& cell) {
  const auto cells = samples.find(contender);
  if (cells == samples.end()) return std::nullopt;
  const auto rounds = cells->second.find(cell);
  if (rounds == cells->second.end() || rounds->second.empty()) return std::nullopt;
  return summarise(rounds->second).p50;
}

std::vector<Goal> goals() {
  std::vector<Goal> all;
  const auto add = [&all](std::string text, Cell cell, std::string rival, Cell rival_cell, double limit) {
    all.push_back(Goal{std::move(text), std::move(cell), std::move(rival), std::move(rival_cell), limit});
  };
  const Cell small{"latency", 2, kSmall};
  const Cell stream{"bandwidth", 2, kLarge};
  add("one way, 8 B", small, "sockets", small, 1.15);
  // A rate of at least 0.9 is a time of at most 1 / 0.9.
  add("one way, 16 MiB, to a stream", Cell{"latency", 2, kLarge}, "sockets", stream, 1 / 0.9);
  add("stream of 16 MiB messages", stream, "sockets", stream, 1 / 0.9);
  for (const int ranks : {2, 4}) {
    for (const std::size_t bytes : {kSmall, kMiddle, kLarge}) {
      const Cell cell{"all_reduce", ranks, bytes};
      const std::string text = fmt::format("all_reduce, {} ranks, {}", ranks, format_size(bytes));
      add(text, cell, "openmpi", cell, 1);
      if (bytes == kSmall) add(text, cell, "gloo", cell, 0.1);
    }
  }
  return all;
}

Verdict judge(const Samples& samples) {
  Verdict verdict;
  verdict.text = fmt::format("# {:<30}  {:>8}  {:>7}  {:>7}\n", "rondo's time relative to", "rival", "ratio", "goal");
  for (const Goal& goal : goals()) {
    const auto ours = median(samples, "rondo", goal.cell);
    const auto theirs = median(samples, goal.rival, goal.rival_cell);
    std::string ratio = "-";
    std::string_view word = "not measured";
    if (ours && theirs && *theirs > 0) {
      const bool met = *ours <= goal.limit * *theirs;
      verdict.missed = verdict.missed || !met;
      ratio = fmt::format("{:.3f}", *ours / *theirs);
      word = met ? "met" : "missed";
    }
    verdict.text +=
        fmt::format("# {:<30}  {:>8}  {:>7}  {:>7.2f}  {}\n", goal.text, goal.rival, ratio, goal.limit, word);
  }
  return verdict;
}

int compare_command(const std::vector<std::string>& arguments) {
  int rounds = 5;
  CLI::App app(
      "Runs rondo over TCP, bare sockets, Open MPI and Gloo in turn on this machine and prints the medians, over the\n"
      "rounds, of each run's p50, and how rondo stands to its goals. Exit status 1: a goal was missed.",
      "rondo-bench compare");
  app.add_option("--rounds", rounds, "how often every program runs")->check(CLI::PositiveNumber);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    throw HelpAsked(app.help());
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }

  const std::vector<Contender> field = contenders();
  Samples samples;
  for (int round = 1; round <= rounds; ++round) {
    fmt::print(stderr, "round {} of {}\n", round, rounds);
    measure_round(field, samples);
  }
  const Verdict verdict = judge(samples);
  fmt::print("# medians of {} rounds; latency is one way, bandwidth is of one message in a stream\n{}#\n{}", rounds,
             medians_table(field, samples), verdict.text);
  return verdict.missed ? kExitWrong : kExitGood;
}

}  // namespace rondo::bench
