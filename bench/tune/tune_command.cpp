#include "bench/tune/tune_command.hpp"

#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/command_line.hpp"
#include "bench/report.hpp"
#include "bench/tune/medians.hpp"
#include "bench/tune/rules.hpp"
#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

constexpr const char* kTuneDescription =
    "Measures every algorithm of every collective, pipelined ones with several chunks, with loops like those of\n"
    "rondo-bench compare, in turn, round after round; prints the rules that follow, as RONDO_TUNING_FILE takes them.\n"
    "Rules of the shm path are for ranks of one host, those of tcp for any; those of more ranks\n"
    "than cores are for ranks that share cores. They reach as far as was measured: the table's own follow them.\n"
    "Rounds before or after which two cores were apart count only where there are no others.\n"
    "At the end it says what rondo's own table is worth here: by how much its choices miss the best.";

struct TypedTuning {
  std::vector<std::string> operations{"all_reduce", "reduce",         "broadcast",  "scatter", "gather",
                                      "all_gather", "reduce_scatter", "all_to_all", "barrier"};
  std::vector<std::string> sizes{"8", "64", "512", "4K", "16K", "64K", "256K", "1M", "4M", "16M"};
  std::vector<std::string> paths{"shm", "tcp"};
};

void add_options(CLI::App& app, TypedTuning& typed, TuneSettings& settings) {
  TuningPlan& plan = settings.plan;
  // What is read was measured by other settings.
  CLI::Option* const from =
      app.add_option("--from", settings.from, "read what --json has written, and measure nothing")
          ->type_name("FILE")
          ->check([](const std::string& path) { return path.empty() ? "got nothing, wanted a file" : ""; });
  const auto list = [&](const char* name, auto& into, const char* text) {
    app.add_option(name, into, text)
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("LIST")
        ->capture_default_str()
        ->excludes(from);
  };
  const auto positive = [&](const char* name, auto& into, const char* text) {
    app.add_option(name, into, text)->check(check_positive)->capture_default_str()->excludes(from);
  };
  list("--operations", typed.operations, "which collectives");
  list("--sizes", typed.sizes, "bytes of the whole vector");
  list("--ranks", plan.ranks, "numbers of ranks");
  list("--paths", typed.paths, "shm, tcp");
  positive("--rounds", plan.rounds, "how often every loop runs");
  positive("--seconds", plan.seconds, "about, for each loop");
  positive("--limit", plan.limits.seconds, "seconds after which a loop is cut");
  app.add_option("--table", settings.table, "write the rules to this file too")->type_name("FILE");
  app.add_option("--json", settings.json, "write all medians to this file")->type_name("FILE");
  app.add_flag("--code", settings.code, "print the rules as lines of the table in collectives/tuning.cpp");
}

std::string to_line(const Worth& worth) {
  if (worth.questions == 0) return "";
  return fmt::format(
      "rondo's own table takes {:.2f} times as long as the best of each, in the geometric mean of {}; {:.2f} at the "
      "most: {} of {}, {} ranks, {}\n",
      worth.mean, worth.questions, worth.most, to_string(worth.where.collective), format_size(worth.where.bytes),
      worth.where.ranks, worth.where.one_host ? "shm" : "tcp");
}

}  // namespace

TuneSettings parse_tune_settings(const std::vector<std::string>& arguments) {
  TuneSettings settings;
  TuningPlan& plan = settings.plan;
  plan.ranks = {2, 4, 8};
  plan.cores = detail::usable_cores();
  TypedTuning typed;
  CLI::App app(kTuneDescription, "rondo-bench tune");
  add_options(app, typed, settings);
  parse(app, arguments);
  for (const auto& text : typed.operations) {
    const Operation operation = operation_named(text);
    if (facts(operation).point_to_point()) throw UsageError(fmt::format("{} has no algorithms", text));
    plan.operations.push_back(operation);
  }
  plan.sizes = sizes_named(typed.sizes);
  for (const auto& text : typed.paths) plan.paths.push_back(parse_path("--paths", text));
  std::sort(plan.ranks.begin(), plan.ranks.end());
  if (!plan.ranks.empty() && plan.ranks.front() < 2)
    throw UsageError(fmt::format("--ranks: got {}, wanted at least 2", plan.ranks.front()));
  return settings;
}

int tune_command(const std::vector<std::string>& arguments) {
  const TuneSettings settings = parse_tune_settings(arguments);
  std::vector<Answered> answers;
  if (!settings.from.empty()) answers = read_medians(settings.from);
  check_writable(settings.json, "--json");
  check_writable(settings.table, "--table");
  if (settings.from.empty()) answers = measure_candidates(settings.plan);
  const std::vector<TuningRule> rules = rules_for(answers);
  const std::string table = print_tuning_rules(rules);
  write_file(settings.json, [&](std::ostream& to) { write_medians(to, answers); });
  write_file(settings.table, [&](std::ostream& to) { to << table; });
  fmt::print(stderr, "{}", to_line(worth_of_table(answers)));
  fmt::print("{}", settings.code ? rules_to_code(rules) : table);
  return kExitGood;
}

}  // namespace rondo::bench
