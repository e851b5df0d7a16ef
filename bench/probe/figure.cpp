#include "bench/probe/figure.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <rondo/size.hpp>

#include "bench/statistics.hpp"
#include "bench/table.hpp"

namespace rondo::bench {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Figure& figure) {
  Json json{{"what", figure.what}};
  if (figure.bytes > 0) json["bytes"] = figure.bytes;
  if (figure.unit.empty()) {
    json["answer"] = figure.answer;
    return json;
  }
  json["unit"] = figure.unit;
  json["median"] = figure.median;
  json["min"] = figure.min;
  json["max"] = figure.max;
  json["samples"] = figure.samples;
  return json;
}

}  // namespace

Figure measured(std::string what, std::size_t bytes, std::string unit, std::vector<double> samples) {
  Figure figure;
  figure.what = std::move(what);
  figure.bytes = bytes;
  figure.unit = std::move(unit);
  figure.samples = samples.size();
  const Times times = summarise(std::move(samples));
  figure.median = times.p50;
  figure.min = times.min;
  figure.max = times.max;
  return figure;
}

Figure answered(std::string what, std::string answer) {
  Figure figure;
  figure.what = std::move(what);
  figure.answer = std::move(answer);
  return figure;
}

std::string to_line(const Figure& figure) { return to_json(figure).dump(); }

std::optional<Figure> from_line(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.contains("what")) return std::nullopt;
  Figure figure;
  figure.what = json["what"];
  figure.bytes = json.value("bytes", std::size_t{0});
  figure.unit = json.value("unit", "");
  figure.median = json.value("median", 0.0);
  figure.min = json.value("min", 0.0);
  figure.max = json.value("max", 0.0);
  figure.samples = json.value("samples", std::size_t{0});
  figure.answer = json.value("answer", "");
  return figure;
}

std::string table_line(const Figure& figure) {
  const std::string head = fmt::format("{:<14} {:>5}  {:<46} {:>6}", figure.item, figure.ranks, figure.what,
                                       figure.bytes > 0 ? format_size(figure.bytes) : "");
  if (figure.unit.empty()) return fmt::format("{}  {}{}\n", head, figure.failed ? "FAILED: " : "", figure.answer);
  return fmt::format("{}  {:>8} {:<4}  {:>8} to {:>8}  {:>4}\n", head, short_number(figure.median), figure.unit,
                     short_number(figure.min), short_number(figure.max), figure.samples);
}

std::string json_text(const ProbedMachine& machine, bool quick, const std::vector<Figure>& figures) {
  Json rows = Json::array();
  for (const Figure& figure : figures) {
    Json row{{"item", figure.item}, {"ranks", figure.ranks}};
    row.update(to_json(figure));
    if (figure.failed) row["failed"] = true;
    rows.push_back(std::move(row));
  }
  return Json{{"version", RONDO_VERSION}, {"date", machine.date}, {"device", machine.device},
              {"driver", machine.driver}, {"quick", quick},       {"figures", std::move(rows)}}
             .dump(2) +
         "\n";
}

}  // namespace rondo::bench
