#include "bench/tune/tune_command.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <rondo/size.hpp>

#include "bench/command_line.hpp"
#include "bench/report.hpp"
#include "bench/tune/rules.hpp"
#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTuneDescription =
    "Measures every algorithm of every collective, pipelined ones with several chunks, with loops like those of\n"
    "rondo-bench compare, in turn, round after round; prints the rules that follow, as RONDO_TUNING_FILE takes them.\n"
    "Rules of the shm path are for ranks of one host, those of tcp for any; those of more ranks\n"
    "than cores are for ranks that share cores. They reach as far as was measured: the table's own follow them.\n"
    "At the end it says what rondo's own table is worth here: by how much its choices miss the best.";

struct TypedTuning {
  std::vector<std::string> operations{"all_reduce", "reduce",         "broadcast",  "scatter", "gather",
                                      "all_gather", "reduce_scatter", "all_to_all", "barrier"};
  std::vector<std::string> sizes{"8", "64", "512", "4K", "16K", "64K", "256K", "1M", "4M", "16M"};
  std::vector<std::string> paths{"shm", "tcp"};
};

void add_options(CLI::App& app, TypedTuning& typed, TuneSettings& settings) {
  TuningPlan& plan = settings.plan;
  const auto list = [&app](const char* name, auto& into, const char* text) {
    app.add_option(name, into, text)->delimiter(',')->allow_extra_args(false)->type_name("LIST")->capture_default_str();
  };
  const auto positive = [&app](const char* name, auto& into, const char* text) {
    app.add_option(name, into, text)->check(check_positive)->capture_default_str();
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

Json to_json(const Answered& answer) {
  Json times = Json::array();
  for (const auto& [choice, time] : answer.microseconds)
    times.push_back({{"algorithm", to_string(choice.algorithm)}, {"chunk_bytes", choice.chunk_bytes}, {"us", time}});
  const Question& question = answer.question;
  const auto loss = loss_of_table(answer);
  return {{"collective", to_string(question.collective)},
          {"bytes", question.bytes},
          {"ranks", question.ranks},
          {"oversubscribed", question.oversubscribed},
          {"one_host", question.one_host},
          {"table_to_best", loss ? Json(*loss) : Json()},
          {"candidates", std::move(times)}};
}

void write_medians(std::ostream& to, const std::vector<Answered>& answers) {
  to << fmt::format("{{\"version\": \"{}\", \"measured\": [", RONDO_VERSION);
  for (const Answered& answer : answers) to << (&answer == answers.data() ? "\n" : ",\n") << to_json(answer).dump();
  to << "\n]}\n";
}

/// What the table that rondo comes with is worth on this machine.
std::string worth_of_table(const std::vector<Answered>& answers) {
  double logarithms = 0, most = 0;
  int questions = 0;
  const Question* where = nullptr;
  for (const Answered& answer : answers) {
    const auto loss = loss_of_table(answer);
    if (!loss) continue;
    logarithms += std::log(*loss);
    ++questions;
    if (*loss > most) std::tie(most, where) = std::tuple(*loss, &answer.question);
  }
  if (!where) return "";
  return fmt::format(
      "rondo's own table takes {:.2f} times as long as the best of each, in the geometric mean of {}; {:.2f} at the "
      "most: {} of {}, {} ranks, {}\n",
      std::exp(logarithms / questions), questions, most, to_string(where->collective), format_size(where->bytes),
      where->ranks, where->one_host ? "shm" : "tcp");
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
  check_writable(settings.json, "--json");
  check_writable(settings.table, "--table");
  const std::vector<Answered> answers = measure_candidates(settings.plan);
  const std::vector<TuningRule> rules = rules_for(answers);
  const std::string table = print_tuning_rules(rules);
  write_file(settings.json, [&](std::ostream& to) { write_medians(to, answers); });
  write_file(settings.table, [&](std::ostream& to) { to << table; });
  fmt::print(stderr, "{}", worth_of_table(answers));
  fmt::print("{}", settings.code ? rules_to_code(rules) : table);
  return kExitGood;
}

}  // namespace rondo::bench
