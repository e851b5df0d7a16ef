#include "tools/run_options.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "runtime/identity.hpp"
#include "tools/process.hpp"
#include "tools/rank_environment.hpp"
#include "tools/version.hpp"

namespace rondo::detail {
namespace {

int parse_count(const std::string& option, const std::string& text, int least, int most, const char* what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    throw LaunchError(fmt::format("option {}: got '{}', wanted {} from {} to {}", option, text, what, least, most));
  }
  return value;
}

std::chrono::nanoseconds parse_seconds(const std::string& option, const std::string& text, bool zero_allowed) {
  constexpr double kMostSeconds = 1e9;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool in_range = zero_allowed ? value >= 0 : value > 0;
  if (error != std::errc{} || end != text.data() + text.size() || !in_range || value > kMostSeconds) {
    throw LaunchError(fmt::format("option {}: got '{}', wanted a number of seconds {} 0, at most {:.0f}", option, text,
                                  zero_allowed ? "not below" : "above", kMostSeconds));
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(value));
}

std::pair<std::string, std::string> parse_export(const std::string& text) {
  const auto equals = text.find('=');
  std::string name = text.substr(0, equals);
  if (name.empty()) throw LaunchError(fmt::format("option -x: got '{}', wanted NAME or NAME=VALUE", text));
  if (is_set_per_rank(name)) {
    throw LaunchError(fmt::format("option -x: {} is what rondo-run itself sets, for each rank", name));
  }
  if (equals != std::string::npos) return {std::move(name), text.substr(equals + 1)};
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) throw LaunchError(fmt::format("option -x: {} is not set in the environment", name));
  return {std::move(name), value};
}

/// The command line of the launcher itself; the program's begins at its first word that is neither option nor value.
struct Words {
  std::vector<std::string> own;
  std::vector<std::string> command;
};

Words split_words(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Words split;
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    if (words[i] == "--") {
      ++i;
      break;
    }
    if (words[i].size() < 2 || words[i][0] != '-') break;
    // CLI11 would read -np as -n with the value p.
    split.own.push_back(words[i] == "-np" ? "--np" : words[i]);
    const std::string& word = split.own.back();
    const bool value_attached = word.starts_with("--") ? word.find('=') != std::string::npos : word.size() > 2;
    if (word.starts_with("--") && word.ends_with('=')) {  // CLI11 would take the next word for its value
      const std::string name = word.substr(0, word.size() - 1);
      const CLI::Option* const named = app.get_option_no_throw(name);
      if (named != nullptr && named->get_items_expected_max() == 0) {
        throw LaunchError(fmt::format("option {}: got a value, wanted none", name));
      }
      split.own.back() = name;
      split.own.emplace_back();
      continue;
    }
    const CLI::Option* option = value_attached ? nullptr : app.get_option_no_throw(word);
    if (option == nullptr || option->get_items_expected_max() == 0) continue;
    if (i + 1 == words.size()) throw LaunchError(fmt::format("option {}: its value is missing", words[i]));
    split.own.push_back(words[++i]);
  }
  split.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return split;
}

class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: rondo-run [options] [--] program [arguments]\n";
  }
};

/// The options as text, before they are understood.
struct Texts {
  std::string size, timeout, grace, max_restarts, bind_to = "none";
  std::vector<std::string> exports;
  bool no_prefix = false;
};

void define(CLI::App& app, RunOptions& options, Texts& texts) {
  const auto value = [&app](const char* names, std::string& to, const char* type, const char* help) {
    app.add_option(names, to, help)->type_name(type)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  value("-n,--np,--nproc-per-node,--nproc_per_node", texts.size, "N",
        "start N ranks (also -np N; 1 when not given), as many as asked whatever the cores");
  app.add_option("-x", texts.exports, "set a variable for the ranks, to VALUE or as it is here")
      ->type_name("NAME[=VALUE]");
  app.add_flag("--no-prefix", texts.no_prefix, "print the ranks' lines without '[rank] ' before them");
  value("--output-dir", options.output_directory, "DIR", "also write each rank's lines to DIR/rank-N.log");
  value("--timeout", texts.timeout, "SECONDS", "end the job when it takes longer; the exit status is then 124");
  value("--grace", texts.grace, "SECONDS",
        "time for ranks to end after Ctrl-C, then after SIGTERM, before SIGKILL (5)");
  value("--max-restarts", texts.max_restarts, "K", "start all ranks again when one failed, at most K times (0)");
  value("--bind-to", texts.bind_to, "none|core", "bind each rank to a core of its own, in turn (none)");
  app.add_flag("--report-bindings", options.report_bindings, "say where each rank is bound");
  app.add_flag("--dry-run", options.dry_run, "print what would be started, with which variables, and start nothing");
  static bool unused = false;  // what mpirun needs to be told and rondo-run does anyway
  app.add_flag("--oversubscribe,--allow-run-as-root,-l,--tag-output", unused)->group("");
}

}  // namespace

RunOptions parse_options(int argc, const char* const* argv, std::optional<int>& exit_status) {
  CLI::App app("Starts N ranks of a program on this machine and brings their output here.", "rondo-run");
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("--version", version_text);
  app.footer(
      "The exit status is that of the first rank that failed, or 128 + the signal that killed it;\n"
      "124: --timeout; 125: rondo-run itself failed; 126: the program is not executable; 127: it was not found.");
  RunOptions options;
  Texts texts;
  define(app, options, texts);
  Words words = split_words(app, argc, argv);
  try {
    app.parse(std::vector<std::string>(words.own.rbegin(), words.own.rend()));
  } catch (const CLI::Success& done) {
    exit_status = app.exit(done);
    return options;
  } catch (const CLI::ExtrasError&) {
    throw LaunchError(fmt::format("unknown option {} (see rondo-run --help)", app.remaining().front()));
  } catch (const CLI::ParseError& error) {
    throw LaunchError(error.what());
  }
  options.command = std::move(words.command);
  options.prefix = !texts.no_prefix;
  const auto given = [&app](const char* option) { return app.count(option) != 0; };
  if (given("-n")) options.size = parse_count("-n", texts.size, 1, kMostRanks, "a number of ranks");
  if (given("--timeout")) options.timeout = parse_seconds("--timeout", texts.timeout, false);
  if (given("--grace")) options.grace = parse_seconds("--grace", texts.grace, true);
  if (given("--max-restarts")) {
    options.max_restarts =
        parse_count("--max-restarts", texts.max_restarts, 0, std::numeric_limits<int>::max(), "a number");
  }
  if (given("--output-dir") && options.output_directory.empty()) {
    throw LaunchError("option --output-dir: got '', wanted a directory");
  }
  if (texts.bind_to != "none" && texts.bind_to != "core") {
    throw LaunchError(fmt::format("option --bind-to: got '{}', wanted none or core", texts.bind_to));
  }
  options.bind_to_core = texts.bind_to == "core";
  for (const std::string& text : texts.exports) options.exports.push_back(parse_export(text));
  if (options.command.empty()) throw LaunchError("no program given (see rondo-run --help)");
  return options;
}

}  // namespace rondo::detail
