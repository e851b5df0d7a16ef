#include "bench/compare/compare_command.hpp"

#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/command_line.hpp"
#include "bench/compare/comparison_report.hpp"
#include "bench/plot.hpp"
#include "bench/report.hpp"
#include "runtime/cores.hpp"

namespace rondo::bench {
namespace {

constexpr const char* kCompareDescription =
    "Runs the same loops on rondo and on the other libraries that were found at build time, in turn, round after\n"
    "round, on this machine, through shared memory and through TCP on loopback; prints medians and the ratio of\n"
    "rondo's time to the best of the others.\n\n"
    "What is timed: a loop over the operation with nothing between two calls, neither a barrier nor a look at the\n"
    "clock. The time of an iteration is the longest over the ranks of the loop's mean; a cell's is the median over\n"
    "the rounds; of a library that runs in several configurations the best one counts, and is named. Latency is one\n"
    "way, half of a round trip, with 2 ranks. Sizes are of the larger buffer of a call, at least an element for each\n"
    "rank. The same for all; results are checked once per loop, outside of what is timed. Each program starts once\n"
    "two cores have exchanged lines of memory about as fast as they ever did here, or have tried to for a second:\n"
    "the host of a virtual machine moves its cores about. Rounds before or after which they were apart count only\n"
    "where a contender has no others.\n\n"
    "With --device cuda all buffers are in the memory of the ranks' devices, and a call has returned when the device\n"
    "is done. Gloo, which knows memory of the host alone, is used as torch.distributed's Gloo backend does with CUDA\n"
    "tensors: copied on a stream to pinned memory of the host, waited for, Gloo's algorithm, copied back, waited for\n"
    "(torch sends no messages of such tensors so: here they go the same way). Where python3 has torch, that backend\n"
    "itself is the peer torch, for all_reduce and broadcast, which waits for its device once, behind a loop. The "
    "other\n"
    "libraries are left out. What is not asked for otherwise: latency,all_reduce at 8,1K,64K,1M,16M,256M, on --paths "
    "default, with --limit 60.";

constexpr const char* kCompareFooter =
    "rondo runs with RONDO_TRANSPORT auto and tcp. On the path `default` every library takes what it takes by itself.\n"
    "`sockets`, `memory` and `model` are no libraries and not counted: every operation over bare TCP sockets; bare\n"
    "lines of shared memory, or for long data process_vm_readv, where that is all that a call takes; and what calls\n"
    "take in the model of rondo-bench explain, with this machine's constants, measured in each round.\n"
    "A loop that takes longer than --limit is cut, as `>10 s`, with it the larger sizes of its operation; nothing is\n"
    "cut or missing without a line that says so.\n"
    "Exit status: 0 good, 1 (with --fail-above) a cell above it or not measured on rondo, or no cell at all of a\n"
    "library that --peers names, or without --peers of any; 2 bad usage, 3 could not run.";

const std::vector<std::string> kComparedOperations{"latency", "all_reduce", "reduce",         "broadcast",  "scatter",
                                                   "gather",  "all_gather", "reduce_scatter", "all_to_all", "barrier"};

struct TypedComparison {
  std::vector<std::string> operations = kComparedOperations;
  std::vector<std::string> sizes{"8", "1K", "64K", "1M", "16M"};
  std::vector<std::string> paths{"shm", "tcp"};
  bool allocate = false;
  std::string device = "cpu";
};

/// Where buffers are on devices and nothing else was asked for: what differs there from the host, in minutes.
void set_device_defaults(const CLI::App& app, TypedComparison& typed, ComparisonPlan& plan) {
  const auto otherwise = [&app](const char* option, auto& value, auto on_devices) {
    if (app.count(option) == 0) value = std::move(on_devices);
  };
  using Texts = std::vector<std::string>;
  otherwise("--operations", typed.operations, Texts{"latency", "all_reduce"});
  otherwise("--sizes", typed.sizes, Texts{"8", "1K", "64K", "1M", "16M", "256M"});
  otherwise("--paths", typed.paths, Texts{"default"});
  otherwise("--limit", plan.limits.seconds, 60.0);
  if (plan.peers_named) return;
  for (const std::string& name : known_peers(BufferPlace::device)) {
    if (std::find(plan.peers.begin(), plan.peers.end(), name) == plan.peers.end()) plan.peers.push_back(name);
  }
}

/// Peers that were named must be able to; of all that there are, those that cannot are left out.
void check_device_peers(const ComparisonPlan& plan) {
  if (!plan.peers_named) return;
  const auto all = known_peers(), able = known_peers(BufferPlace::device);
  const auto among = [](const auto& names, const auto& name) { return std::count(names.begin(), names.end(), name); };
  for (const auto& name : plan.peers) {
    if (among(all, name) != 0 && among(able, name) == 0)
      throw UsageError(fmt::format("--peers: got '{}', with --device cuda wanted {}", name, fmt::join(able, ", ")));
  }
}

void add_options(CLI::App& app, TypedComparison& typed, CompareSettings& settings) {
  ComparisonPlan& plan = settings.plan;
  const auto list = [&app](const char* name, auto& into, const char* text) {
    app.add_option(name, into, text)->delimiter(',')->allow_extra_args(false)->type_name("LIST")->capture_default_str();
  };
  list("--operations", typed.operations, "which operations");
  list("--sizes", typed.sizes, "bytes");
  list("--ranks", plan.ranks, "numbers of ranks");
  list("--paths", typed.paths, "shm, tcp, default");
  list("--peers", plan.peers, "other libraries");
  app.add_flag("--allocate", typed.allocate, "rondo's operations on buffers from rondo::allocate");
  app.add_option("--device", typed.device, "where the buffers are: cpu, cuda");
  app.add_option("--rounds", plan.rounds, "how often every loop runs")->check(check_positive)->capture_default_str();
  app.add_option("--seconds", plan.seconds, "about, for each loop")->check(check_positive)->capture_default_str();
  app.add_option("--limit", plan.limits.seconds, "seconds after which a loop is cut")
      ->check(check_positive)
      ->capture_default_str();
  app.add_option("--fail-above", settings.fail_above, "exit status 1 if a ratio is above this")
      ->type_name("RATIO")
      ->check(check_positive);
  app.add_option("--json", settings.json, "write all of it to this file")->type_name("FILE");
  app.add_option("--markdown", settings.markdown, "write a table of ratios, and to whom, to this file")
      ->type_name("FILE");
  app.add_option("--plot", settings.plot, "draw the ratios over the size (needs gnuplot)")
      ->type_name("FILE.svg")
      ->check(check_plot_name);
}

void interpret(const TypedComparison& typed, ComparisonPlan& plan) {
  for (const auto& text : typed.operations) plan.operations.push_back(operation_named(text));
  if (plan.place == BufferPlace::device) {
    for (const Operation operation : plan.operations) check_on_devices(operation, typed.allocate);
  }
  plan.sizes = sizes_named(typed.sizes);
  for (const auto& text : typed.paths) {
    plan.paths.push_back(parse_path("--paths", text, {Path::shm, Path::tcp, Path::untold}));
  }
  for (const int ranks : plan.ranks) {
    if (ranks < 2) throw UsageError(fmt::format("--ranks: got {}, wanted at least 2", ranks));
  }
  const bool any =
      std::any_of(plan.ranks.begin(), plan.ranks.end(), [&plan](int ranks) { return !loops_for(plan, ranks).empty(); });
  if (!any) throw UsageError("nothing to measure: latency and bandwidth are measured with 2 ranks");
}

void measure_round(const ComparisonPlan& plan, int cores, CoreDistance& distance, std::vector<Entry>& entries) {
  for (const int ranks : plan.ranks) {
    for (const Path path : plan.paths) {
      for (Entry& entry : entries) {
        const Contender& contender = entry.contender;
        if (contender.path != path || !contender.is_made_for(ranks, cores)) continue;
        std::vector<Loop> loops = loops_for(plan, ranks);
        if (contender.has) std::erase_if(loops, [&](const Loop& loop) { return !contender.has(loop); });
        const auto command = [&](const std::vector<Loop>& some) {
          return contender.command_for(ranks, {some, plan.seconds, 0});
        };
        run_series(loops, plan.limits, command, entry.by_ranks[ranks], distance);
      }
    }
  }
}

int verdict(const Comparison& comparison, std::optional<double> limit) {
  if (!limit) return kExitGood;
  const std::vector<Row> above = rows_above(comparison.rows, *limit);
  for (const Row& row : above)
    fmt::print("# above {:g}: {}: {}\n", *limit, describe(row),
               row.ratio ? fmt::format("{:.3f}", *row.ratio) : "rondo " + row.rondo.trouble);
  const std::vector<std::string> lacking = peers_lacking(comparison.rows, comparison.plan);
  for (const std::string& name : lacking) fmt::print("# {} gave no cell to compare with\n", name);
  if (!above.empty() || !lacking.empty()) return kExitWrong;
  const auto& peers = comparison.plan.peers;
  if (std::all_of(peers.begin(), peers.end(), is_bare)) {
    fmt::print("# rondo was measured, but compared with no library: {} not counted\n", fmt::join(peers, ", "));
  } else {
    fmt::print("# no cell is above {:g}\n", *limit);
  }
  return kExitGood;
}

}  // namespace

CompareSettings parse_compare_settings(const std::vector<std::string>& arguments) {
  CompareSettings settings;
  settings.plan.ranks = {2, 4, 8};
  settings.plan.peers = known_peers();
  TypedComparison typed;
  CLI::App app(kCompareDescription, "rondo-bench compare");
  app.footer(kCompareFooter);
  add_options(app, typed, settings);
  parse(app, arguments);
  ComparisonPlan& plan = settings.plan;
  plan.peers_named = app.count("--peers") != 0;
  if (typed.allocate) plan.place = BufferPlace::allocated;
  if (device_named(typed.device)) {
    plan.place = BufferPlace::device;
    set_device_defaults(app, typed, plan);
    check_device_peers(plan);
  }
  interpret(typed, settings.plan);
  return settings;
}

int compare_command(const std::vector<std::string>& arguments) {
  const CompareSettings settings = parse_compare_settings(arguments);
  check_writable(settings.json, "--json");
  check_writable(settings.markdown, "--markdown");
  check_plot(settings.plot);
  const bool on_devices = settings.plan.place == BufferPlace::device;
  check_device(on_devices);
  Field field = find_contenders(settings.plan.paths, settings.plan.peers, settings.plan.place);

  Comparison comparison{settings.plan, detail::usable_cores(), {}, std::move(field.absent), {}, {}, {}};
  if (on_devices) comparison.devices = found_devices();
  for (Contender& contender : field.contenders) comparison.entries.push_back({std::move(contender), {}});
  fmt::print("{}", contenders_text(comparison.entries, comparison.absent));
  std::fflush(stdout);
  for (int round = 1; round <= settings.plan.rounds; ++round) {
    fmt::print(stderr, "round {} of {}\n", round, settings.plan.rounds);
    measure_round(settings.plan, comparison.cores, comparison.distance, comparison.entries);
  }
  comparison.rows = compare(comparison.entries, settings.plan, comparison.distance);

  fmt::print("{}", comparison_table(comparison));
  write_file(settings.json, [&](std::ostream& to) { write_json(to, comparison); });
  write_file(settings.markdown, [&](std::ostream& to) { to << comparison_markdown(comparison); });
  if (!settings.plot.empty()) run_gnuplot(settings.plot, comparison_plot(settings.plot, comparison));
  return verdict(comparison, settings.fail_above);
}

}  // namespace rondo::bench
