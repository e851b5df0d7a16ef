#include "bench/compare/comparison_report.hpp"

#include <algorithm>
#include <ostream>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <rondo/size.hpp>

#include "bench/table.hpp"

namespace rondo::bench {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> names_on(const std::vector<Row>& rows, Path path) {
  std::set<std::string> names;
  for (const Row& row : rows) {
    if (row.path != path) continue;
    for (const auto& [name, standing] : row.others) names.insert(name);
  }
  return {names.begin(), names.end()};
}

/// A time; "over 10 s" without the blanks; "failed" for any other trouble, whose words stand below the table.
std::string shown(const Standing& standing) {
  if (standing.microseconds) return short_number(*standing.microseconds);
  if (standing.trouble.substr(0, 5) == "over ") return ">" + standing.trouble.substr(5);
  return "failed";
}

std::string path_table(const std::vector<Row>& rows, Path path) {
  const std::vector<std::string> names = names_on(rows, path);
  std::string text = fmt::format("#\n# path {}, medians in us\n#{:>14}  {:>5}  {:>5}  {:>9}", to_string(path),
                                 "operation", "ranks", "size", kRondo);
  for (const auto& name : names) text += fmt::format("  {:>9}", name);
  text += fmt::format("  {:>6}  {}\n", "ratio", "to the best");
  for (const Row& row : rows) {
    if (row.path != path) continue;
    const std::string size = row.operation == Operation::barrier ? "-" : format_size(row.bytes);
    text += fmt::format("{:>15}  {:>5}  {:>5}  {:>9}", facts(row.operation).name, row.ranks, size, shown(row.rondo));
    for (const auto& name : names)
      text += fmt::format("  {:>9}", row.others.contains(name) ? shown(row.others.at(name)) : "-");
    text += fmt::format("  {:>6}  {}\n", row.ratio ? short_ratio(*row.ratio) : "-", name_of_best(row));
  }
  return text;
}

std::string mean_line(const std::vector<Row>& rows, Path path, const std::string& against) {
  const auto mean = geometric_mean(rows, path, against);
  const std::string to = against.empty() ? "the best of the others" : against;
  if (!mean) return fmt::format("# {}: no cell was measured on both rondo and {}\n", to_string(path), to);
  return fmt::format("# {}: geometric mean of rondo's time to that of {}: {:.3f} ({} cells)\n", to_string(path), to,
                     mean->ratio, mean->cells);
}

/// Each trouble once, with all that it befell.
std::string troubles_text(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries) {
    for (const auto& [ranks, series] : entry.by_ranks) {
      std::map<std::string, std::vector<std::string>> loops;
      for (const auto& [loop, trouble] : series.troubles) loops[trouble].push_back(to_string(loop));
      for (const auto& [trouble, which] : loops)
        text += fmt::format("# {} ({}) on {}, {} ranks: {}: {}\n", entry.contender.name, entry.contender.variant,
                            to_string(entry.contender.path), ranks, trouble, fmt::join(which, ", "));
    }
  }
  return text;
}

std::string device_lines(const FoundDevices& found) {
  return fmt::format("# buffers are memory of devices: {}; driver {}\n{}", found.names, found.driver,
                     found.stand_in ? kStandInLine : "");
}

std::string distance_lines(const Comparison& comparison) {
  const CoreDistance& distance = comparison.distance;
  std::string text;
  if (distance.least() > 0) {
    text = fmt::format(
        "# a line of memory took {:.3f} us from core to core; when {} of {} programs started it took over {:g} times "
        "that\n",
        distance.least(), distance.apart(), distance.settled() + distance.apart(), CoreDistance::kApart);
  }
  if (const std::size_t cells = unlike_cells(comparison.rows))
    text +=
        fmt::format("# in {} cells one side was measured with cores near each other, the other apart alone\n", cells);
  return text;
}

Json to_json(const CoreDistance& distance) {
  return {{"us", distance.least()}, {"near", distance.settled()}, {"apart", distance.apart()}};
}

Json to_json(const Standing& standing) {
  Json object{{"us", standing.microseconds ? Json(*standing.microseconds) : Json(nullptr)},
              {"rounds_us", standing.rounds},
              {"apart", standing.apart},
              {"variant", standing.variant}};
  if (!standing.trouble.empty()) object["trouble"] = standing.trouble;
  return object;
}

Json to_json(const Row& row) {
  Json peers = Json::object();
  for (const auto& [name, standing] : row.others) peers[name] = to_json(standing);
  return {{"path", to_string(row.path)},
          {"op", facts(row.operation).name},
          {"ranks", row.ranks},
          {"bytes", row.bytes},
          {"rondo", to_json(row.rondo)},
          {"peers", std::move(peers)},
          {"best", row.best.empty() ? Json(nullptr) : Json(row.best)},
          {"ratio", row.ratio ? Json(*row.ratio) : Json(nullptr)}};
}

Json to_json(const Entry& entry) {
  Introduction said;
  for (const auto& [ranks, series] : entry.by_ranks) said = series.introduction;
  return {{"name", entry.contender.name},
          {"variant", entry.contender.variant},
          {"path", to_string(entry.contender.path)},
          {"library", said.library},
          {"transport", said.transport},
          {"command", entry.contender.command.text()}};
}

Json to_json(const std::optional<FoundDevices>& found) {
  if (!found) return nullptr;
  return {{"name", found->names}, {"driver", found->driver}, {"stand_in", found->stand_in}};
}

Json means_json(const Comparison& comparison) {
  Json means = Json::array();
  const auto add = [&](Path path, const std::string& against) {
    const auto mean = geometric_mean(comparison.rows, path, against);
    if (!mean) return;
    means.push_back({{"path", to_string(path)},
                     {"against", against.empty() ? "best" : against},
                     {"ratio", mean->ratio},
                     {"cells", mean->cells}});
  };
  for (const Path path : comparison.plan.paths) {
    add(path, "");
    for (const auto& name : names_on(comparison.rows, path)) add(path, name);
  }
  return means;
}

}  // namespace

std::string contenders_text(const std::vector<Entry>& entries, const std::vector<Absence>& absent) {
  std::string text;
  for (const Entry& entry : entries) {
    const Contender& contender = entry.contender;
    text += fmt::format("# {} ({}) on {}: {}\n", contender.name, contender.variant, to_string(contender.path),
                        contender.command.text());
  }
  for (const Absence& one : absent) text += fmt::format("# {} is left out: {}\n", one.name, one.why);
  return text;
}

std::string comparison_table(const Comparison& comparison) {
  std::string text = fmt::format("# {} rounds of loops of about {:g} s, {} cores\n", comparison.plan.rounds,
                                 comparison.plan.seconds, comparison.cores);
  text += distance_lines(comparison);
  if (comparison.devices) text += device_lines(*comparison.devices);
  std::set<std::string> introduced;
  for (const Entry& entry : comparison.entries) {
    for (const auto& [ranks, series] : entry.by_ranks) {
      const std::string line =
          fmt::format("# {} on {}: {}, transport {}\n", entry.contender.name, to_string(entry.contender.path),
                      series.introduction.library, series.introduction.transport);
      if (!series.introduction.library.empty() && introduced.insert(line).second) text += line;
    }
  }
  for (const Path path : comparison.plan.paths) text += path_table(comparison.rows, path);
  text += "#\n";
  for (const Path path : comparison.plan.paths) {
    text += mean_line(comparison.rows, path, "");
    for (const auto& name : names_on(comparison.rows, path)) text += mean_line(comparison.rows, path, name);
  }
  text += troubles_text(comparison.entries);
  for (const Absence& one : comparison.absent) text += fmt::format("# {} is left out: {}\n", one.name, one.why);
  return text;
}

void write_json(std::ostream& to, const Comparison& comparison) {
  Json report{{"version", RONDO_VERSION},
              {"cores", comparison.cores},
              {"rounds", comparison.plan.rounds},
              {"seconds", comparison.plan.seconds},
              {"core_distance", to_json(comparison.distance)},
              {"device", to_json(comparison.devices)},
              {"contenders", Json::array()},
              {"absent", Json::array()},
              {"cells", Json::array()},
              {"geometric_means", means_json(comparison)}};
  for (const Entry& entry : comparison.entries) report["contenders"].push_back(to_json(entry));
  for (const Absence& one : comparison.absent) report["absent"].push_back({{"name", one.name}, {"why", one.why}});
  for (const Row& row : comparison.rows) report["cells"].push_back(to_json(row));
  to << report.dump(2) << '\n';
}

}  // namespace rondo::bench
