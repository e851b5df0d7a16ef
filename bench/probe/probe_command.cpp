#include "bench/probe/probe_command.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/command_line.hpp"
#include "bench/probe/crew.hpp"
#include "bench/report.hpp"
#include "cuda/kernels/kernel_image.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// After that no further item is begun.
constexpr std::chrono::seconds kMostTime{480};

struct ProbeSettings {
  std::vector<std::string> items;  ///< none: all
  bool quick = false;
  std::string json;
};

constexpr const char* kProbeFooter =
    "The device is the first that CUDA_VISIBLE_DEVICES leaves. Medians, and from the least to the greatest of so many\n"
    "samples. GB/s are 10^9 bytes of the size a second.\n"
    "Exit status: 0 all was answered, 1 an item failed, 2 bad usage, 77 there is no GPU, no driver or no kernels.";

ProbeSettings parse_probe_settings(const std::vector<std::string>& arguments) {
  ProbeSettings settings;
  CLI::App app{"What a GPU and its driver do between processes: what costs how much, and what happens when one dies.",
               "rondo-bench probe"};
  std::vector<std::string> known;
  for (const Item& item : probe_items()) known.emplace_back(item.name);
  app.add_option("--items", settings.items, fmt::format("only these of {}", fmt::join(known, ", ")))
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--quick", settings.quick, "tiny sizes and few samples: whether all works, not how fast");
  app.add_option("--json", settings.json, "write the figures to this file")->type_name("FILE");
  app.footer(kProbeFooter);
  parse(app, arguments);
  for (const std::string& name : settings.items) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw UsageError(fmt::format("unknown item '{}'; known: {}", name, fmt::join(known, ", ")));
  }
  check_writable(settings.json, "--json");
  return settings;
}

class Probe {
 public:
  explicit Probe(const ProbeSettings& settings) : settings_(settings) {}

  int run() {
    machine_.date = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
    for (const Item& item : probe_items()) {
      const bool first = &item == &probe_items().front();
      if (!first && !asked_for(item)) continue;
      if (!first) fmt::print("# {}\n", item.question);
      for (const int ranks : item.ranks) ask(item, ranks);
      if (first) {
        if (!cannot_run_.empty()) return cannot_run();
        introduce();
      }
    }
    write_file(settings_.json, [&](std::ostream& to) { to << json_text(machine_, settings_.quick, figures_); });
    return std::any_of(figures_.begin(), figures_.end(), [](const Figure& figure) { return figure.failed; })
               ? kExitWrong
               : kExitGood;
  }

 private:
  bool asked_for(const Item& item) const {
    return settings_.items.empty() ||
           std::find(settings_.items.begin(), settings_.items.end(), item.name) != settings_.items.end();
  }

  void ask(const Item& item, int ranks) {
    CrewOutcome outcome;
    if (Clock::now() - begin_ > kMostTime) {
      outcome.reason = fmt::format("not begun: the probe has run for {} s", kMostTime.count());
    } else {
      outcome = run_crew(item, ranks, settings_.quick);
    }
    if (outcome.status == kExitCannotRun) cannot_run_ = outcome.reason;
    if (!outcome.reason.empty()) {
      Figure figure = answered(item.deadly ? "how it ended" : "no answer", outcome.reason);
      figure.failed = !item.deadly;
      outcome.figures.push_back(figure);
    }
    for (Figure& figure : outcome.figures) {
      figure.item = item.name;
      figure.ranks = ranks;
      if (&item != &probe_items().front()) fmt::print("{}", table_line(figure));
      figures_.push_back(std::move(figure));
    }
    std::fflush(stdout);
  }

  /// What the first item has said, above the table.
  void introduce() {
    for (const Figure& figure : figures_) {
      if (figure.what == "device") machine_.device = figure.answer;
      if (figure.what == "driver") machine_.driver = figure.answer;
      fmt::print("# {}: {}\n", figure.what, figure.answer);
    }
    fmt::print("# date: {}; rondo {}{}\n", machine_.date, RONDO_VERSION,
               settings_.quick ? "; --quick: these figures say nothing" : "");
    fmt::print("#{:>13} {:>5}  {:<46} {:>6}  {:>8} {:<4}  {:>8}    {:>8}  {:>4}\n", "item", "ranks", "what", "size",
               "median", "unit", "least", "greatest", "of");
  }

  int cannot_run() const {
    fmt::print(stderr, "rondo-bench probe: {}\n", cannot_run_);
    return kExitCannotRun;
  }

  const ProbeSettings& settings_;
  Clock::time_point begin_ = Clock::now();
  ProbedMachine machine_;
  std::vector<Figure> figures_;
  std::string cannot_run_;
};

}  // namespace

int probe_command(const std::vector<std::string>& arguments) {
  const ProbeSettings settings = parse_probe_settings(arguments);
  if (cuda::kernel_image().empty()) {
    fmt::print(stderr, "rondo-bench probe: rondo was built without nvcc, so there are no kernels to probe with\n");
    return kExitCannotRun;
  }
  return Probe(settings).run();
}

}  // namespace rondo::bench
