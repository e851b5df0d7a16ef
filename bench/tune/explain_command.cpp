#include "bench/tune/explain_command.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/error.hpp>
#include <rondo/size.hpp>

#include "bench/command_line.hpp"
#include "bench/statistics.hpp"
#include "bench/table.hpp"
#include "bench/tune/candidates.hpp"
#include "bench/tune/rules.hpp"
#include "bench/tune/tuner.hpp"
#include "collectives/simulation/predict.hpp"
#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

constexpr const char* kDescription =
    "Prints which algorithm is chosen for an operation, a size and a number of ranks, which rule of the table says "
    "so,\n"
    "and what the alternatives would take: as the model says (LogGP, each rank on a core of its own) and, with\n"
    "--measure, as measured with loops like those of rondo-bench compare. RONDO_ALGORITHM and RONDO_CHUNK_BYTES count.";

/// What the alternatives take on the paths, in the model: constants of loopback and of shared memory on a virtual
/// machine with two cores. One way 8 B took 3.6 us over TCP and 0.3 us through shared memory, 16 MiB 7 and 11 GB/s.
simulation::LogGP model_of(Path path) {
  using simulation::kMicrosecond;
  using simulation::kNanosecond;
  if (path == Path::tcp) return {600 * kNanosecond, 1500 * kNanosecond, kMicrosecond, 142, 70};
  return {100 * kNanosecond, 100 * kNanosecond, 50 * kNanosecond, 90, 70};
}

std::string sentence(const Question& question) {
  const std::string size = question.collective == Collective::barrier ? "" : " of " + format_size(question.bytes);
  return fmt::format("{}{}: {} ranks {}, {}", to_string(question.collective), size, question.ranks,
                     question.oversubscribed ? "that share cores" : "with a core each",
                     question.one_host ? "on one host" : "over TCP");
}

/// Medians by choice.
std::vector<std::pair<Choice, double>> measured(const ExplainSettings& settings) {
  TuningPlan plan;
  plan.paths = {settings.path};
  plan.operations = {settings.operation};
  plan.sizes = {static_cast<std::size_t>(settings.question.bytes)};
  plan.ranks = {settings.question.ranks};
  plan.rounds = settings.rounds;
  plan.seconds = settings.seconds;
  plan.cores = detail::usable_cores();
  const std::vector<Answered> answers = measure_candidates(plan);
  return answers.empty() ? std::vector<std::pair<Choice, double>>{} : answers.front().microseconds;
}

std::string alternatives(const ExplainSettings& settings, const Choice& chosen) {
  const auto times = settings.measure ? measured(settings) : std::vector<std::pair<Choice, double>>{};
  const simulation::LogGP model = model_of(settings.path);
  std::string text = fmt::format("model: latency {:g} us, overhead {:g} us, gap {:g} us, {:g} ns a byte\n\n",
                                 static_cast<double>(model.latency) / simulation::kMicrosecond,
                                 static_cast<double>(model.overhead) / simulation::kMicrosecond,
                                 static_cast<double>(model.gap) / simulation::kMicrosecond, model.gap_per_byte / 1e3);
  text += fmt::format("{:<20} {:>7} {:>12} {:>14}\n", "algorithm", "chunk", "model (us)", "measured (us)");
  for (const Choice& choice : candidates_for(settings.question)) {
    const bool is_chosen = choice.algorithm == chosen.algorithm && choice.chunk_bytes == chosen.chunk_bytes;
    const auto predicted = predicted_microseconds(settings.question, choice, settings.path);
    const auto time = std::find_if(times.begin(), times.end(), [&](const auto& one) {
      return one.first.algorithm == choice.algorithm && one.first.chunk_bytes == choice.chunk_bytes;
    });
    text += fmt::format(
        "{:<20} {:>7} {:>12} {:>14}\n", fmt::format("{}{}", to_string(choice.algorithm), is_chosen ? " *" : ""),
        choice.chunk_bytes == 0 ? "whole" : format_size(choice.chunk_bytes), predicted ? short_number(*predicted) : "-",
        time != times.end() ? short_number(time->second) : "-");
  }
  return text + "\n* what is chosen\n";
}

/// The first rule that answers; it is what `choose` takes where nobody asks for anything else.
std::optional<std::size_t> place_of_rule(const Question& question) {
  const auto table = tuning_table();
  const auto rule = std::find_if(table.begin(), table.end(), [&](const auto& one) { return answers(one, question); });
  if (rule == table.end()) return std::nullopt;
  return static_cast<std::size_t>(rule - table.begin());
}

Choice choice_of(const Question& question, const Config& config) {
  return choose(question, Algorithm::automatic, config.algorithm_for(question.collective), config.chunk_bytes);
}

}  // namespace

std::string reason_text(const Question& question, const Config& config) {
  const Algorithm preferred = config.algorithm_for(question.collective);
  const bool by_user = preferred != Algorithm::automatic && is_valid(question, preferred);
  std::string why = "nothing in the table answers";
  if (by_user) {
    why = fmt::format("RONDO_ALGORITHM is {}", to_string(preferred));
  } else if (const auto place = place_of_rule(question)) {
    why = fmt::format("rule {} of the table, {}", *place + 1, rule_to_words(tuning_table()[*place]));
  }
  if (config.chunk_bytes != 0) why += fmt::format("; RONDO_CHUNK_BYTES is {}", format_size(config.chunk_bytes));
  return fmt::format("chosen: {}\nwhy: {}\n", choice_to_words(choice_of(question, config)), why);
}

std::optional<double> predicted_microseconds(const Question& question, const Choice& choice, Path path) {
  if (shares_memory(choice.algorithm)) return std::nullopt;
  rondo::Plan plan;
  plan.collective = question.collective;
  plan.algorithm = choice.algorithm;
  plan.chunk = choice.chunk_bytes;
  plan.blocks = Blocks::even(question.bytes, question.ranks);
  plan.recv_blocks = plan.blocks;
  const simulation::LogGP model = model_of(path);
  constexpr std::uint64_t kMostMessages = 1'000'000;
  const simulation::Prediction stated = simulation::formula(plan, question.ranks, model);
  const bool small = stated.total_messages <= kMostMessages;
  const simulation::Time time = small ? simulation::simulate(plan, question.ranks, model).time : stated.time;
  return static_cast<double>(time) / simulation::kMicrosecond;
}

ExplainSettings parse_explain_settings(const std::vector<std::string>& arguments) {
  ExplainSettings settings;
  std::string operation;
  std::string size = "8";
  std::string path = "shm";
  int ranks = 2;
  CLI::App app(kDescription, "rondo-bench explain");
  app.add_option("operation", operation, "a collective")->type_name("OPERATION")->required();
  app.add_option("-b,--size", size, "bytes of the whole vector: 8, 64K")->capture_default_str();
  app.add_option("-n,--ranks", ranks, "ranks")->check(CLI::Range(2, 1 << 16))->capture_default_str();
  app.add_option("--path", path, "shm (ranks of one host) or tcp")->capture_default_str();
  bool shared = false;
  bool own = false;
  auto* const share = app.add_flag("--share-cores", shared, "more ranks than cores (default: as on this machine)");
  app.add_flag("--own-cores", own, "a core for each rank")->excludes(share);
  app.add_flag("--measure", settings.measure, "run the alternatives");
  app.add_option("--rounds", settings.rounds, "of --measure")->check(check_positive)->capture_default_str();
  app.add_option("--seconds", settings.seconds, "of --measure, about, for each")
      ->check(check_positive)
      ->capture_default_str();
  parse(app, arguments);
  settings.operation = operation_named(operation);
  if (facts(settings.operation).point_to_point()) throw UsageError(fmt::format("{} has no algorithms", operation));
  settings.path = parse_path(path);
  Question& question = settings.question;
  question.collective = facts(settings.operation).collective;
  question.bytes = shape_of(settings.operation, size_of(size, "--size"), sizeof(float), ranks).bytes;
  question.ranks = ranks;
  question.oversubscribed = shared || (!own && ranks > detail::usable_cores());
  question.one_host = settings.path == Path::shm;
  return settings;
}

int explain_command(const std::vector<std::string>& arguments) {
  const ExplainSettings settings = parse_explain_settings(arguments);
  const Config config = Config::from(process_environment());
  fmt::print("{}\n{}", sentence(settings.question), reason_text(settings.question, config));
  fmt::print("{}", alternatives(settings, choice_of(settings.question, config)));
  return kExitGood;
}

}  // namespace rondo::bench
