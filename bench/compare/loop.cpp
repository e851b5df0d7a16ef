#include "bench/compare/loop.hpp"

#include <chrono>
#include <cstdio>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <rondo/error.hpp>
#include <rondo/size.hpp>

#include "bench/command_line.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

void print_line(Fabric& fabric, const std::string& line) {
  if (fabric.rank() != 0) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

Settings settings_of(const Loop& loop, const LoopSettings& all) {
  Settings settings;
  settings.allocate = all.allocate;
  settings.device = all.device;
  settings.operation = loop.operation;
  settings.algorithm = loop.algorithm;
  settings.chunk_bytes = loop.chunk_bytes;
  return settings;
}

}  // namespace

std::string to_string(const Loop& loop) {
  std::string text = fmt::format("{}:{}", facts(loop.operation).name, loop.bytes);
  if (loop.algorithm != Algorithm::automatic)
    text += fmt::format(":{}:{}", rondo::to_string(loop.algorithm), loop.chunk_bytes);
  return text;
}

Loop parse_loop(std::string_view text) {
  const auto refuse = [text]() {
    return UsageError(
        fmt::format("--loops: got '{}', wanted OPERATION:BYTES or OPERATION:BYTES:ALGORITHM:CHUNK", text));
  };
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 2 && parts.size() != 4) throw refuse();
  const auto operation = parse_operation(parts[0]);
  const auto algorithm = parts.size() == 4 ? parse_algorithm(parts[2]) : Algorithm::automatic;
  if (!operation || !algorithm) throw refuse();
  try {
    return {*operation, parse_size(parts[1]), *algorithm, parts.size() == 4 ? parse_size(parts[3]) : 0};
  } catch (const Error&) {
    throw refuse();
  }
}

LoopSettings parse_loop_settings(const std::string& program, const std::vector<std::string>& arguments) {
  LoopSettings settings;
  std::string loops;
  std::string device = "cpu";
  CLI::App app("Runs loops for rondo-bench compare and tune.", program);
  app.add_option("--loops", loops, "OPERATION:BYTES,...")->required();
  app.add_option("--seconds", settings.seconds, "about, for each loop")->check(check_positive);
  app.add_option("-n", settings.ranks, "start so many ranks");
  app.add_flag("--allocate", settings.allocate, "rondo: buffers from rondo::allocate");
  app.add_option("--device", device, "where the buffers are: cpu, cuda");
  parse(app, arguments);
  settings.device = device_named(device);
  for (const auto& text : split(loops, ',')) settings.loops.push_back(parse_loop(text));
  return settings;
}

LoopSettings parse_host_loop_settings(const std::string& program, const std::vector<std::string>& arguments) {
  LoopSettings settings = parse_loop_settings(program, arguments);
  if (settings.device)
    throw UsageError("--device: got cuda, wanted cpu: these loops have no buffers in the memory of devices");
  return settings;
}

std::vector<std::string> to_arguments(const LoopSettings& settings) {
  std::string loops;
  for (const Loop& loop : settings.loops) loops += (loops.empty() ? "" : ",") + to_string(loop);
  std::vector<std::string> arguments{"--loops", loops, "--seconds", fmt::format("{}", settings.seconds)};
  if (settings.allocate) arguments.emplace_back("--allocate");
  if (settings.device) arguments.insert(arguments.end(), {"--device", "cuda"});
  return arguments;
}

double time_loop(Fabric& fabric, Exercise& exercise, double seconds, std::size_t& wrong) {
  exercise.prepare(Exercise::Contents::pattern);
  fabric.barrier();
  exercise.run();
  fabric.barrier();
  auto wrong_here = static_cast<double>(exercise.wrong());
  fabric.fold({&wrong_here, 1}, Fabric::Fold::sum);
  wrong = static_cast<std::size_t>(wrong_here);

  const int iterations = iterations_within(fabric, exercise, seconds, false);
  fabric.barrier();
  const auto begin = Clock::now();
  for (int i = 0; i < iterations; ++i) exercise.run();
  double mean = std::chrono::duration<double>(Clock::now() - begin).count() / iterations * exercise.scale();
  fabric.fold({&mean, 1}, Fabric::Fold::max);
  return mean;
}

int run_loops(Fabric& fabric, const Introduction& introduction, const LoopSettings& settings,
              const MakeExercise& make_exercise) {
  fabric.barrier();
  print_line(fabric, fmt::format("ready {} {}", introduction.transport, introduction.library));
  bool any_wrong = false;
  for (const Loop& loop : settings.loops) {
    const Settings of_loop = settings_of(loop, settings);
    const Shape shape = shape_of(loop.operation, loop.bytes, element_bytes(of_loop.type), fabric.size());
    const auto exercise = make_exercise(of_loop, shape);
    std::size_t wrong = 0;
    const double time = time_loop(fabric, *exercise, settings.seconds, wrong);
    print_line(fabric, fmt::format("time {} {:.4f} {}", to_string(loop), time * 1e6, wrong));
    any_wrong = any_wrong || wrong != 0;
  }
  return any_wrong ? kExitWrong : kExitGood;
}

Line read_line(const std::string& text) {
  Line line;
  std::istringstream words(text);
  std::string first;
  words >> first;
  if (first == "ready") {
    line.kind = Line::Kind::ready;
    words >> line.introduction.transport >> std::ws;
    std::getline(words, line.introduction.library);
  } else if (first == "time") {
    std::string loop;
    if (!(words >> loop >> line.microseconds >> line.wrong)) return {};
    line.kind = Line::Kind::time;
    line.loop = parse_loop(loop);
  }
  return line;
}

}  // namespace rondo::bench
