#include "bench/tune/explain_command.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/error.hpp>
#include <rondo/size.hpp>

#include "bench/command_line.hpp"
#include "bench/table.hpp"
#include "bench/tune/candidates.hpp"
#include "bench/tune/machine.hpp"
#include "bench/tune/message_protocol.hpp"
#include "bench/tune/rules.hpp"
#include "bench/tune/tuner.hpp"
#include "collectives/direct.hpp"
#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

constexpr const char* kExplainDescription =
    "Prints which algorithm is chosen for an operation, a size and a number of ranks, which rule of the table says "
    "so,\n"
    "and what the alternatives would take: as the model says (LogGP for messages, in shared memory what is read and\n"
    "written; at least the work of all ranks over the cores) and, with --measure, as measured with loops like those "
    "of\n"
    "rondo-bench compare; then the model's constants are measured, too. Of latency and bandwidth it prints how "
    "messages of which length go, and why.\n"
    "RONDO_ALGORITHM, RONDO_CHUNK_BYTES, RONDO_TUNING_FILE, RONDO_DETERMINISTIC and RONDO_EAGER_LIMIT count.";

std::string sentence(const ExplainSettings& settings) {
  const Question& question = settings.question;
  const std::string size = settings.operation == Operation::barrier ? "" : " of " + format_size(question.bytes);
  std::string where = question.one_host ? "on one host" : "over TCP";
  if (question.hosts) where = fmt::format("on {} hosts", settings.place.hosts);
  return fmt::format("{}{}: {} ranks {}, {}{}{}", facts(settings.operation).name, size, question.ranks,
                     question.oversubscribed ? "that share cores" : "with a core each", where,
                     question.deterministic ? ", deterministic" : "", settings.allocate ? ", allocated buffers" : "");
}

/// Medians by choice.
std::vector<std::pair<Choice, double>> measured(const ExplainSettings& settings) {
  TuningPlan plan;
  plan.paths = {settings.place.path};
  plan.operations = {settings.operation};
  plan.sizes = {static_cast<std::size_t>(settings.question.bytes)};
  plan.ranks = {settings.question.ranks};
  plan.rounds = settings.rounds;
  plan.seconds = settings.seconds;
  plan.cores = settings.place.cores;
  plan.allocate = settings.allocate;
  const std::vector<Answered> answers = measure_candidates(plan);
  return answers.empty() ? std::vector<std::pair<Choice, double>>{} : answers.front().microseconds;
}

std::string alternatives(const ExplainSettings& settings, const Choice& chosen) {
  const auto times = settings.measure ? measured(settings) : std::vector<std::pair<Choice, double>>{};
  const Place& place = settings.place;
  const Question& question = settings.question;
  const Constants constants = settings.measure ? Machine().constants(question.bytes, question.ranks) : Constants();
  std::string text = fmt::format("model{}: {}{}\n", settings.measure ? ", of this machine" : "",
                                 to_text(constants, place.path, place.cores),
                                 settings.allocate ? "       no buffer is allocated there\n" : "");
  text += fmt::format("{:<20} {:>7} {:>12} {:>14}\n", "algorithm", "chunk", "model (us)", "measured (us)");
  std::vector<Choice> choices = candidates_for(settings.question);
  // A chunk that is longer than all of it, say.
  if (std::find(choices.begin(), choices.end(), chosen) == choices.end()) choices.push_back(chosen);
  for (const Choice& choice : choices) {
    const auto predicted = predicted_microseconds(settings.question, choice, place, constants);
    const auto time = std::find_if(times.begin(), times.end(), [&](const auto& one) { return one.first == choice; });
    text += fmt::format(
        "{:<20} {:>7} {:>12} {:>14}\n", fmt::format("{}{}", to_string(choice.algorithm), choice == chosen ? " *" : ""),
        choice.chunk_bytes == 0 ? "whole" : format_size(choice.chunk_bytes), predicted ? short_number(*predicted) : "-",
        time != times.end() ? short_number(time->second) : "-");
  }
  return text + "\n* what is chosen\n";
}

/// The first rule that answers, in words; it is what `choose` takes where nobody asks for anything else.
std::optional<std::string> rule_that_answers(std::span<const TuningRule> rules, const Question& question,
                                             std::string_view of) {
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const auto& one) { return answers(one, question); });
  if (rule == rules.end()) return std::nullopt;
  return fmt::format("rule {} of {}, {}", rule - rules.begin() + 1, of, rule_to_words(*rule));
}

Choice choice_of(const Question& question, const Config& config) {
  const Algorithm preferred = config.algorithm_for(question.collective);
  return choose(question, Algorithm::automatic, preferred, config.chunk_bytes, read_tuning_rules(config.tuning_file));
}

void check_meaning(const ExplainSettings& settings) {
  const OperationFacts& operation = facts(settings.operation);
  if (settings.measure && operation.point_to_point())
    throw UsageError(fmt::format("--measure: got it with {0}, which rondo-bench {0} measures", operation.name));
  if (settings.question.deterministic && !operation.reduces)
    throw UsageError(fmt::format("--deterministic is for operations that combine, not {}", operation.name));
  if (settings.allocate && settings.operation == Operation::barrier)
    throw UsageError("--allocate is for operations with buffers, not barrier");
}

void check_hosts(ExplainSettings& settings, int ranks) {
  Place& place = settings.place;
  if (place.hosts == 1) return;
  if (ranks % place.hosts != 0)
    throw UsageError(fmt::format("--hosts: got {} for {} ranks, wanted as many ranks on each", place.hosts, ranks));
  if (settings.measure) throw UsageError("--hosts: got it with --measure, which runs on this machine alone");
  place.path = Path::tcp;
}

}  // namespace

std::string reason_text(const Question& question, const Config& config) {
  const Algorithm preferred = config.algorithm_for(question.collective);
  const bool by_user = preferred != Algorithm::automatic && is_valid(question, preferred);
  std::string why = "nothing in the table answers";
  if (by_user) {
    why = fmt::format("RONDO_ALGORITHM is {}", to_string(preferred));
  } else if (const auto own = rule_that_answers(read_tuning_rules(config.tuning_file), question, config.tuning_file)) {
    why = *own;
  } else if (const auto rule = rule_that_answers(tuning_table(), question, "the table")) {
    why = *rule;
  }
  if (config.chunk_bytes != 0) why += fmt::format("; RONDO_CHUNK_BYTES is {}", format_size(config.chunk_bytes));
  Question otherwise = question;
  otherwise.deterministic = false;
  if (const Choice other = choice_of(otherwise, config); other != choice_of(question, config))
    why += fmt::format("; not deterministic it would be {}", choice_to_words(other));
  return fmt::format("chosen: {}\nwhy: {}\n", choice_to_words(choice_of(question, config)), why);
}

std::string allocated_text(Operation operation, const Question& question, Algorithm algorithm) {
  const OperationFacts& known = facts(operation);
  if (algorithm == Algorithm::two_level) return "allocated: as for the parts of it on each host\n";
  if (!shares_memory(algorithm)) return "allocated: makes no difference to a collective by messages\n";
  const std::uint64_t ranks = known.in_blocks ? static_cast<std::uint64_t>(question.ranks) : 1;
  const std::size_t least = detail::least_mapped_bytes(question.collective, question.oversubscribed);
  const bool looks = algorithm == Algorithm::sliced || algorithm == Algorithm::fetched;
  if (!looks && question.bytes / ranks < least)
    return fmt::format("allocated: makes no difference to {}less than {} {}\n",
                       algorithm == Algorithm::adaptive ? "direct, of " : "", format_size(least),
                       known.in_blocks ? "in a block" : "in all");
  return fmt::format(
      "allocated: {} where they are, {}\n", known.reduces ? "combined" : "read",
      known.reduces && !known.in_blocks ? "straight into the results' buffers" : "with no copy in between");
}

ExplainSettings parse_explain_settings(const std::vector<std::string>& arguments) {
  ExplainSettings settings;
  std::string operation;
  std::string size = "8";
  std::string path = "shm";
  int ranks = 2;
  CLI::App app(kExplainDescription, "rondo-bench explain");
  app.add_option("operation", operation, "a collective, latency or bandwidth")->type_name("OPERATION")->required();
  app.add_option("-b,--size", size, "bytes of the whole vector: 8, 64K")->capture_default_str();
  app.add_option("-n,--ranks", ranks, "ranks")->check(CLI::Range(2, 1 << 16))->capture_default_str();
  app.add_option("--path", path, "shm (ranks of one host) or tcp, as between hosts")->capture_default_str();
  app.add_option("--hosts", settings.place.hosts, "on which the ranks are, as many on each")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  bool shared = false;
  bool own = false;
  auto* const share = app.add_flag("--share-cores", shared, "more ranks than cores (default: as on this machine)");
  app.add_flag("--own-cores", own, "a core for each rank")->excludes(share);
  app.add_flag("--allocate", settings.allocate, "buffers from rondo::allocate");
  app.add_flag("--deterministic", settings.question.deterministic, "as Options::deterministic");
  app.add_flag("--measure", settings.measure,
               "run the alternatives, on this machine, and measure what the model is made of");
  app.add_option("--rounds", settings.rounds, "of --measure")->check(check_positive)->capture_default_str();
  app.add_option("--seconds", settings.seconds, "of --measure, about, for each")
      ->check(check_positive)
      ->capture_default_str();
  parse(app, arguments);
  settings.operation = operation_named(operation);
  check_meaning(settings);
  settings.place.path = parse_path("--path", path);
  check_hosts(settings, ranks);
  const int ranks_here = ranks / settings.place.hosts;
  settings.place.cores = detail::usable_cores();
  Question& question = settings.question;
  question.collective = facts(settings.operation).collective;
  question.bytes = shape_of(settings.operation, size_of(size, "--size"), sizeof(float), ranks).bytes;
  question.ranks = ranks;
  question.oversubscribed = shared || (!own && ranks_here > settings.place.cores);
  question.one_host = settings.place.path == Path::shm;
  question.hosts = question.hosts_in_order = question.hosts_alike = settings.place.hosts > 1 && ranks_here > 1;
  return settings;
}

int explain_command(const std::vector<std::string>& arguments) {
  ExplainSettings settings = parse_explain_settings(arguments);
  const Config config = Config::from(process_environment());
  Question& question = settings.question;
  question.deterministic |= config.deterministic && facts(settings.operation).reduces;
  fmt::print("{}\n", sentence(settings));
  if (facts(settings.operation).point_to_point()) {
    fmt::print("{}",
               message_text({question.bytes, settings.place.path, question.oversubscribed, settings.allocate}, config));
    return kExitGood;
  }
  const Choice choice = choice_of(question, config);
  fmt::print("{}", reason_text(question, config));
  if (settings.allocate) fmt::print("{}", allocated_text(settings.operation, question, choice.algorithm));
  fmt::print("{}", alternatives(settings, choice));
  return kExitGood;
}

}  // namespace rondo::bench
