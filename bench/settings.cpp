#include "bench/settings.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rondo/cuda.hpp>
#include <rondo/error.hpp>
#include <rondo/size.hpp>
#include <rondo/tuning.hpp>

#include "bench/command_line.hpp"
#include "bench/element_dispatch.hpp"

namespace rondo::bench {
namespace {

constexpr std::size_t kBytesInFlight = std::size_t{64} << 20;

/// The options as they were typed.
struct TypedSettings {
  std::string operation;
  std::string first = "8";
  std::string last = "16M";
  double factor = 2;
  std::vector<std::string> sizes;
  std::string type = "float";
  std::string reduce = "sum";
  std::string algorithm = "automatic";
  std::string chunk = "0";
  std::string transport;
  std::string device = "cpu";
  bool no_check = false;
};

template <typename Enum, std::size_t Size>
std::optional<Enum> parse_name(const std::array<Enum, Size>& all, std::string_view text, std::string& known) {
  for (const Enum value : all) {
    if (to_string(value) == text) return value;
    if (!known.empty()) known += ", ";
    known += to_string(value);
  }
  return std::nullopt;
}

template <typename Enum, std::size_t Size>
Enum name_of(const std::array<Enum, Size>& all, std::string_view text, std::string_view what) {
  std::string known;
  if (const auto value = parse_name(all, text, known)) return *value;
  throw UsageError(fmt::format("unknown {} '{}'; known: {}", what, text, known));
}

/// As RONDO_TRANSPORT takes it.
Transport transport_of(const std::string& text) {
  try {
    return Config::from({{"RONDO_TRANSPORT", text}}).transport;
  } catch (const Error& error) {
    throw UsageError(fmt::format("--transport is {}", error.cause()));
  }
}

/// Of all collectives.
std::string known_algorithms() {
  std::vector<std::string_view> names{to_string(Algorithm::automatic)};
  for (std::size_t i = 0; i < Config::kCollectives; ++i) {
    for (const Algorithm algorithm : every_algorithm_of(static_cast<Collective>(i))) {
      const std::string_view name = to_string(algorithm);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void add_options(CLI::App& app, TypedSettings& typed, Settings& settings) {
  app.add_option("operation", typed.operation, known_operations())->type_name("OPERATION");
  app.add_option("-n,--ranks", settings.ranks, "start this many ranks, with rondo-run");

  auto* const first =
      app.add_option("-b,--begin", typed.first, "smallest size in bytes: 8, 64K, 1M")->type_name("SIZE");
  auto* const last = app.add_option("-e,--end", typed.last, "largest size")->type_name("SIZE");
  auto* const factor = app.add_option("-f,--factor", typed.factor, "from one size to the next")
                           ->type_name("FACTOR")
                           ->check(check_number<double>);
  app.add_option("--sizes", typed.sizes, "these sizes instead: 8,64K,1M")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(first)
      ->excludes(last)
      ->excludes(factor);

  app.add_option("-t,--type", typed.type,
                 "element type: int8 ... uint64, half, bfloat16, float, double, complex64, complex128");
  app.add_option("-o,--op", typed.reduce, "sum, prod, min, max, avg, band, bor, bxor, land, lor");
  app.add_option("--root", settings.root, "root of reduce, broadcast, scatter, gather");
  app.add_option("--algorithm", typed.algorithm, "instead of the tuning table's choice");
  app.add_option("--chunk", typed.chunk, "bytes of a pipeline's chunk, instead of the tuning table's choice")
      ->type_name("SIZE");
  app.add_option("--transport", typed.transport, "as RONDO_TRANSPORT");
  app.add_flag("--in-place", settings.in_place, "input and output in one buffer");
  app.add_flag("--allocate", settings.allocate, "buffers from rondo::allocate");
  app.add_option("--device", typed.device, "where the buffers are: cpu, cuda");
  app.add_flag("--default-stream", settings.default_stream,
               "with --device cuda: calls are on the default stream, which others wait for, not on one of their own");

  app.add_option("-w,--warmup", settings.warmup, "untimed iterations before each size");
  auto* const iterations = app.add_option("-i,--iterations", settings.iterations, "timed iterations of each size");
  app.add_option("--seconds", settings.seconds, "time for each size, instead of -i; at most a million iterations")
      ->excludes(iterations);
  app.add_option("--window", settings.window, "bandwidth: messages in flight, up to 64 MiB together");
  app.add_flag("--check,!--no-check", settings.check, "compare results with what they have to be (default: on)");

  app.add_option("--json", settings.json, "write the results to this file")->type_name("FILE");
  app.add_option("--csv", settings.csv, "write the results to this file")->type_name("FILE");
  app.add_option("--plot", settings.plot, "draw time and bandwidth over size (needs gnuplot)")
      ->type_name("FILE.svg")
      ->check(check_plot_name);

  app.add_flag("--started", settings.started)->group("");
  app.add_option("--progress", settings.progress_path)->group("");
}

constexpr std::string_view kFooter =
    "Other commands, each with its own --help:\n"
    "  rondo-bench tuning     prints which algorithm is chosen for which sizes and ranks\n"
    "  rondo-bench explain    prints for one operation, size and number of ranks what is chosen, why and instead of "
    "what;\n"
    "                         --explain is the same\n"
    "  rondo-bench tune       measures every algorithm and prints the table that follows\n"
    "  rondo-bench raw        the same loops on bare TCP sockets, or bare lines of shared memory\n"
    "  rondo-bench probe      what a GPU and its driver do between processes: costs, and what happens when one dies\n"
    "  rondo-bench kernels    how fast elements are combined, for every type and operator\n"
    "  rondo-bench neighbour  what ranks that wait cost one that computes\n"
    "  rondo-bench compare    rondo, bare sockets and other libraries in turn, with ratios\n"
    "  rondo-bench loops      one side of that by itself\n\n"
    "With --device cuda the table has three more columns: call is what isend, irecv (latency: the mean of both),\n"
    "iall_reduce, ... cost their thread until they return, waiting for no other rank; enqueue is that and wait_on, "
    "until\n"
    "the thread may go on, the device idle before; of a message, with the wait for its other side in it. copy% "
    "compares\n"
    "with the bandwidth of copies within a device.\n\n"
    "Without -n, rondo-bench takes its rank from the launcher: rondo-run -n 4 rondo-bench all_reduce\n"
    "Exit status: 0 good, 1 a result was wrong, 2 bad usage, 3 the job failed.";

void require(bool good, std::string_view option, std::string_view wanted, const std::string& got) {
  if (!good) throw UsageError(fmt::format("{}: got {}, wanted {}", option, got, wanted));
}

void check_numbers(const Settings& settings) {
  if (settings.ranks) require(*settings.ranks >= 1, "-n", "at least 1 rank", std::to_string(*settings.ranks));
  if (settings.warmup) require(*settings.warmup >= 0, "-w", "0 or more", std::to_string(*settings.warmup));
  if (settings.iterations)
    require(*settings.iterations >= 1, "-i", "at least 1 iteration", std::to_string(*settings.iterations));
  if (settings.seconds)
    require(std::isfinite(*settings.seconds) && *settings.seconds > 0, "--seconds", "more than 0",
            fmt::format("{}", *settings.seconds));
  require(settings.window >= 1, "--window", "at least 1 message", std::to_string(settings.window));
  require(settings.root >= 0, "--root", "0 or more", std::to_string(settings.root));
  require(settings.chunk_bytes <= (std::size_t{1} << 30), "--chunk", "at most 1G",
          std::to_string(settings.chunk_bytes));
}

void check_algorithm(Algorithm algorithm, const OperationFacts& operation) {
  if (operation.point_to_point()) throw UsageError(fmt::format("{} has no algorithms", operation.name));
  const std::vector<Algorithm> all = every_algorithm_of(operation.collective);
  if (std::find(all.begin(), all.end(), algorithm) != all.end()) return;
  std::string known;
  for (const Algorithm one : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(one));
  throw UsageError(fmt::format("{} has no algorithm {}; it has {}", operation.name, to_string(algorithm), known));
}

void check_meaning(const Settings& settings) {
  const OperationFacts& operation = facts(settings.operation);
  if (operation.reduces && !applies(settings.reduce, settings.type))
    throw UsageError(
        fmt::format("-o {} is not defined for -t {}", to_string(settings.reduce), to_string(settings.type)));
  if (settings.in_place && !operation.in_place)
    throw UsageError(fmt::format("{} has no in-place form", operation.name));
  if (settings.allocate && settings.operation == Operation::barrier)
    throw UsageError("--allocate is for operations with buffers, not barrier");
  if (settings.device) check_on_devices(settings.operation, settings.allocate);
  if (settings.default_stream && !settings.device)
    throw UsageError("--default-stream is that of a device, wanted --device cuda beside it");
  if (settings.algorithm != Algorithm::automatic) check_algorithm(settings.algorithm, operation);
  if (settings.algorithm == Algorithm::leader && !settings.device)
    throw UsageError("--algorithm leader is for buffers on devices, wanted --device cuda beside it");
  if (!settings.plot.empty() && settings.operation == Operation::barrier)
    throw UsageError("barrier has no sizes to plot");
}

void interpret(const TypedSettings& typed, Settings& settings) {
  settings.operation = operation_named(typed.operation);
  const auto type = parse_element_type(typed.type);
  if (!type || !is_benchmarked(*type))
    throw UsageError(fmt::format("unknown type '{}'; known: {}", typed.type, benchmarked_types()));
  settings.type = *type;

  using enum ReduceKind;
  settings.reduce = name_of(std::array{sum, prod, min, max, avg, band, bor, bxor, land, lor}, typed.reduce, "operator");
  const auto algorithm = parse_algorithm(typed.algorithm);
  if (!algorithm)
    throw UsageError(fmt::format("unknown algorithm '{}'; known: {}", typed.algorithm, known_algorithms()));
  settings.algorithm = *algorithm;
  settings.device = device_named(typed.device);
  if (!typed.transport.empty()) settings.transport = transport_of(typed.transport);
  settings.chunk_bytes = size_of(typed.chunk, "--chunk");

  for (const auto& text : typed.sizes) settings.sizes.push_back(size_of(text, "--sizes"));
  if (settings.sizes.empty())
    settings.sizes = size_range(size_of(typed.first, "-b"), size_of(typed.last, "-e"), typed.factor);
}

}  // namespace

Operation operation_named(const std::string& text) {
  const auto operation = parse_operation(text);
  if (!operation) throw UsageError(fmt::format("unknown operation '{}'; known: {}", text, known_operations()));
  return *operation;
}

bool device_named(const std::string& text) {
  if (text != "cpu" && text != "cuda") throw UsageError(fmt::format("unknown device '{}'; known: cpu, cuda", text));
  return text == "cuda";
}

std::size_t size_of(const std::string& text, std::string_view option) {
  try {
    return parse_size(text);
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.cause()));
  }
}

std::vector<std::size_t> sizes_named(const std::vector<std::string>& texts) {
  std::vector<std::size_t> sizes;
  for (const auto& text : texts) sizes.push_back(size_of(text, "--sizes"));
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

std::vector<Algorithm> every_algorithm_of(Collective collective) {
  const auto by_messages = algorithms_of(collective);
  const auto shared = shared_algorithms_of(collective);
  std::vector<Algorithm> all(by_messages.begin(), by_messages.end());
  all.insert(all.end(), shared.begin(), shared.end());
  if (has_two_levels(collective)) all.push_back(Algorithm::two_level);
  if (has_leader(collective)) all.push_back(Algorithm::leader);
  return all;
}

std::vector<std::size_t> size_range(std::size_t first, std::size_t last, double factor) {
  require(first >= 1, "-b", "at least 1 byte (--sizes 0 measures empty messages)", std::to_string(first));
  if (first > last) throw UsageError(fmt::format("-b {} is more than -e {}", format_size(first), format_size(last)));
  require(std::isfinite(factor) && factor > 1, "-f", "more than 1", fmt::format("{}", factor));
  std::vector<std::size_t> sizes;
  for (std::size_t size = first; size <= last;) {
    sizes.push_back(size);
    const double next = std::floor(static_cast<double>(size) * factor);
    if (next > static_cast<double>(last)) break;
    size = std::max(size + 1, static_cast<std::size_t>(next));
  }
  return sizes;
}

Settings parse_settings(const std::vector<std::string>& arguments) {
  Settings settings;
  TypedSettings typed;
  CLI::App app("Times rondo's operations and checks their results.", "rondo-bench");
  app.footer(std::string(kFooter));
  add_options(app, typed, settings);
  parse(app, arguments);
  if (typed.operation.empty()) throw UsageError(fmt::format("an operation is missing; known: {}", known_operations()));
  interpret(typed, settings);
  check_numbers(settings);
  check_meaning(settings);
  return settings;
}

void check_against(const Settings& settings, int ranks) {
  const OperationFacts& operation = facts(settings.operation);
  if (settings.started && settings.ranks != ranks)
    throw UsageError(fmt::format("-n {} was asked for, but the launcher started {} ranks", *settings.ranks, ranks));
  if (operation.point_to_point() && ranks < 2)
    throw UsageError(fmt::format("{} needs 2 ranks, got {}: use -n 2", operation.name, ranks));
  if (operation.rooted && settings.root >= ranks)
    throw UsageError(fmt::format("--root {} is not one of the {} ranks", settings.root, ranks));
}

void check_on_devices(Operation operation, bool allocate) {
  if (operation == Operation::barrier) throw UsageError("--device is for operations with buffers, not barrier");
  if (allocate) throw UsageError("--allocate gives memory of the host, which --device cuda does not use");
}

void check_device(bool asked) {
  if (asked && !cuda::available())
    throw std::runtime_error(fmt::format("--device cuda: there is no CUDA driver: {}", cuda::why_unavailable()));
}

int warmup_for(const Settings& settings, std::size_t bytes) {
  return settings.warmup.value_or(bytes <= (64U << 10) ? 100 : bytes <= (1U << 20) ? 10 : 2);
}

int iterations_for(const Settings& settings, std::size_t bytes) {
  return settings.iterations.value_or(bytes <= (64U << 10) ? 1000 : bytes <= (1U << 20) ? 100 : 20);
}

int window_for(const Settings& settings, std::size_t bytes) {
  const std::size_t fitting = kBytesInFlight / std::max<std::size_t>(bytes, 1);
  return static_cast<int>(std::clamp<std::size_t>(fitting, 1, static_cast<std::size_t>(settings.window)));
}

}  // namespace rondo::bench
