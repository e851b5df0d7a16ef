#include "bench/session.hpp"

#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/progress_bar.hpp"
#include "bench/report.hpp"
#include "bench/table.hpp"

namespace rondo::bench {
namespace {

/// Distinct shapes: sizes that round to the same elements are measured once.
std::vector<Shape> shapes_of(const Settings& settings, int ranks) {
  std::vector<Shape> shapes;
  const std::vector<std::size_t> none{0};
  const auto& sizes = settings.operation == Operation::barrier ? none : settings.sizes;
  for (const std::size_t bytes : sizes) {
    const Shape shape = shape_of(settings.operation, bytes, element_bytes(settings.type), ranks);
    if (shapes.empty() || shapes.back() != shape) shapes.push_back(shape);
  }
  return shapes;
}

Result describe(const Subject& subject, const Settings& settings, const Shape& shape) {
  const OperationFacts& operation = facts(settings.operation);
  Result result;
  result.operation = settings.operation;
  result.algorithm = subject.algorithm(shape);
  result.transport = subject.transport;
  result.type = settings.operation == Operation::barrier ? "none" : std::string(to_string(settings.type));
  result.reduce = operation.reduces ? std::string(to_string(settings.reduce)) : "none";
  result.root = operation.rooted ? settings.root : -1;
  result.bytes = shape.bytes;
  result.count = shape.count;
  return result;
}

std::unique_ptr<Exercise> exercise_of(const Subject& subject, const Settings& settings, const Shape& shape) {
  try {
    return subject.exercise(shape);
  } catch (const std::bad_alloc&) {
    throw std::runtime_error(
        fmt::format("{} of {} bytes: memory is not enough", facts(settings.operation).name, shape.bytes));
  }
}

/// How an iteration is timed, in one line; measure.hpp has the reasons.
std::string method(const Settings& settings) {
  if (settings.operation == Operation::latency) return "rank 0 times round trips, of which a time is half";
  if (settings.operation == Operation::bandwidth)
    return fmt::format("rank 0 times windows of {} messages (fewer above 64M) and an answer; a time is of one message",
                       settings.window);
  return fmt::format("every rank times its calls, {}; a time is the longest over the ranks",
                     facts(settings.operation).synchronises ? "back to back" : "each after a barrier");
}

std::string on_devices(const DeviceFigures& device, bool default_stream) {
  return fmt::format(
      "# buffers are memory of devices ({}), calls are on {}; the clock is the host's,\n"
      "# around calls that return when the device is done\n"
      "# call is what i... (isend, irecv, iall_reduce, ...) costs its thread until it returns, waiting for no other "
      "rank;\n"
      "# enqueue is that and wait_on, until the thread may go on, with the wait for a message's other side in it: "
      "means\n"
      "# over 100 calls at the most, each after a barrier, the device idle; latency's are the mean of isend and irecv\n"
      "# copy% is of {:.1f} GB/s, which copies of {} read and write on rank 0's device: what the operation comes to "
      "when\n"
      "# each input is read once and each output is written once, over all ranks\n{}",
      device.name, default_stream ? "the default stream" : "a stream of their own", device.copy_GBps,
      format_size(device.copy_bytes), device.stand_in ? kStandInLine : "");
}

std::string introduction(const Subject& subject, const Settings& settings, int ranks) {
  const OperationFacts& operation = facts(settings.operation);
  std::string text =
      fmt::format("# {} on {}: {} ranks, transport {}", operation.name, subject.library, ranks, subject.transport);
  if (operation.in_place && settings.operation != Operation::broadcast)
    text += settings.in_place ? ", in place" : ", out of place";
  if (settings.allocate) text += ", allocated";
  text += fmt::format("\n# {}\n# time, algbw and busbw are of the mean over the iterations\n", method(settings));
  text += carrier_lines(subject.ways.carriers);
  text += device_carrier_lines(subject.ways.device_carriers);
  text += unshared_lines(subject.ways.unshared);
  if (subject.device) text += on_devices(*subject.device, settings.default_stream);
  return text + table_head(subject.device.has_value());
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::vector<Result> run_sizes(Fabric& fabric, const Subject& subject, const Settings& settings) {
  const bool speaks = fabric.rank() == 0;
  std::optional<ProgressBar> bar;
  if (speaks) bar.emplace(settings.progress_path);
  if (speaks) print(introduction(subject, settings, fabric.size()));

  std::vector<Result> results;
  const std::vector<Shape> shapes = shapes_of(settings, fabric.size());
  for (const Shape& shape : shapes) {
    const auto exercise = exercise_of(subject, settings, shape);
    const OperationFacts& operation = facts(settings.operation);
    const Plan plan{warmup_for(settings, shape.bytes),
                    iterations_for(settings, shape.bytes),
                    settings.seconds,
                    settings.check,
                    !operation.synchronises && !operation.point_to_point(),
                    subject.device.has_value()};
    const auto done = static_cast<double>(results.size());
    const auto progress = [&](double share) {
      if (bar) bar->show((done + share) / static_cast<double>(shapes.size()), format_size(shape.bytes));
    };
    const Measurement measurement = measure(fabric, *exercise, plan, progress);
    results.push_back(describe(subject, settings, shape));
    take(measurement, fabric.size(), settings.check, results.back());
    if (subject.device) compare_with_copies(subject.device->copy_GBps, fabric.size(), results.back());
    if (bar) {
      bar->erase();
      print(table_row(results.back()));
    }
  }
  if (speaks) print(table_foot(results));
  return results;
}

int run_subject(Fabric& fabric, const Subject& subject, const Settings& settings) {
  check_against(settings, fabric.size());
  const std::vector<Result> results = run_sizes(fabric, subject, settings);
  if (fabric.rank() == 0) write_reports(settings, fabric.size(), subject.ways, subject.device, results);
  return exit_status(results);
}

}  // namespace rondo::bench
