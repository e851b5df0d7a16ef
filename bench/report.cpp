#include "bench/report.hpp"

#include <cerrno>
#include <cstring>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <nlohmann/json.hpp>

#include "bench/plot.hpp"

namespace rondo::bench {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Result& result) {
  const Times& time = result.time_us;
  return {
      {"op", facts(result.operation).name},
      {"algorithm", result.algorithm},
      {"transport", result.transport},
      {"type", result.type},
      {"redop", result.reduce},
      {"root", result.root},
      {"bytes", result.bytes},
      {"count", result.count},
      {"iterations", result.iterations},
      {"time_us", {{"mean", time.mean}, {"min", time.min}, {"p50", time.p50}, {"p99", time.p99}, {"max", time.max}}},
      {"algbw_GBps", result.algbw_GBps},
      {"busbw_GBps", result.busbw_GBps},
      {"wrong", result.wrong ? Json(*result.wrong) : Json(nullptr)},
      {"call_us", result.call_us ? Json(*result.call_us) : Json(nullptr)},
      {"enqueue_us", result.enqueue_us ? Json(*result.enqueue_us) : Json(nullptr)},
      {"copy_percent", result.copy_percent ? Json(*result.copy_percent) : Json(nullptr)},
  };
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json to_json(const Unshared& unshared) {
  return {
      {"collectives", or_null(unshared.collectives)},
      {"buffers", or_null(unshared.buffers)},
      {"buffers_from", unshared.buffers.empty() ? Json(nullptr) : Json(unshared.buffers_from)},
  };
}

Json to_json(const std::vector<Carrier>& carriers) {
  Json all = Json::array();
  for (const Carrier& carrier : carriers) {
    all.push_back({
        {"transport", carrier.transport},
        {"reason", or_null(carrier.reason)},
        {"long_messages", or_null(carrier.long_messages)},
        {"pairs", carrier.pairs},
    });
  }
  return all;
}

Json to_json(const std::optional<DeviceFigures>& device) {
  if (!device) return nullptr;
  return {
      {"name", device->name},
      {"stand_in", device->stand_in},
      {"copy_bytes", device->copy_bytes},
      {"copy_GBps", device->copy_GBps},
  };
}

/// What was asked for, as far as the rows do not tell.
Json to_json(const Settings& settings) {
  return {
      {"in_place", settings.in_place}, {"allocate", settings.allocate}, {"chunk_bytes", settings.chunk_bytes},
      {"window", settings.window},     {"check", settings.check},
  };
}

}  // namespace

void write_json(std::ostream& to, const std::string& version, int ranks, const Settings& settings, const Ways& ways,
                const std::optional<DeviceFigures>& device, const std::vector<Result>& results) {
  Json rows = Json::array();
  for (const Result& result : results) rows.push_back(to_json(result));
  const Json report = {
      {"version", version},
      {"ranks", ranks},
      {"settings", to_json(settings)},
      {"carriers", to_json(ways.carriers)},
      {"device", to_json(device)},
      {"device_carriers", to_json(ways.device_carriers)},
      {"unshared", to_json(ways.unshared)},
      {"results", std::move(rows)},
  };
  to << report.dump(2) << '\n';
}

void write_csv(std::ostream& to, int ranks, const std::vector<Result>& results) {
  to << "op,algorithm,transport,type,redop,root,bytes,count,iterations,mean_us,min_us,p50_us,p99_us,max_us,algbw_GBps,"
        "busbw_GBps,wrong,call_us,enqueue_us,copy_percent,ranks\n";
  for (const Result& result : results) {
    const Times& time = result.time_us;
    fmt::print(to, "{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.6g},{:.6g},{},{},{},{},{}\n",
               facts(result.operation).name, result.algorithm, result.transport, result.type, result.reduce,
               result.root, result.bytes, result.count, result.iterations, time.mean, time.min, time.p50, time.p99,
               time.max, result.algbw_GBps, result.busbw_GBps, result.wrong ? fmt::format("{}", *result.wrong) : "",
               result.call_us ? fmt::format("{:.3f}", *result.call_us) : "",
               result.enqueue_us ? fmt::format("{:.3f}", *result.enqueue_us) : "",
               result.copy_percent ? fmt::format("{:.6g}", *result.copy_percent) : "", ranks);
  }
}

void check_writable(const std::string& path, const char* option) {
  if (path.empty()) return;
  errno = 0;
  if (!std::ofstream(path, std::ios::app))
    throw UsageError(fmt::format("{}: cannot write {}: {}", option, path, std::strerror(errno)));
}

void check_plot(const std::string& path) {
  check_writable(path, "--plot");
  if (!path.empty() && !gnuplot_found())
    throw UsageError("--plot needs the program gnuplot, which is not on PATH (Debian: apt install gnuplot-nox)");
}

void check_reports(const Settings& settings) {
  check_writable(settings.json, "--json");
  check_writable(settings.csv, "--csv");
  check_plot(settings.plot);
}

void write_reports(const Settings& settings, int ranks, const Ways& ways, const std::optional<DeviceFigures>& device,
                   const std::vector<Result>& results) {
  write_file(settings.json,
             [&](std::ostream& to) { write_json(to, RONDO_VERSION, ranks, settings, ways, device, results); });
  write_file(settings.csv, [&](std::ostream& to) { write_csv(to, ranks, results); });
  if (!settings.plot.empty()) draw(settings.plot, ranks, results);
}

}  // namespace rondo::bench
