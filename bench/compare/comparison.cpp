#include "bench/compare/comparison.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/statistics.hpp"

namespace rondo::bench {
namespace {

/// What one variant did; nothing if it was not run in this cell at all.
std::optional<Standing> standing_of(const Entry& entry, int ranks, const Loop& loop, const CoreDistance& distance) {
  const auto series = entry.by_ranks.find(ranks);
  if (series == entry.by_ranks.end()) return std::nullopt;
  Standing standing;
  standing.variant = entry.contender.variant;
  // A loop that failed in any round failed.
  const auto trouble = series->second.troubles.find(loop);
  if (trouble != series->second.troubles.end()) {
    standing.trouble = trouble->second;
    return standing;
  }
  standing.rounds = series->second.times_of(loop, distance);
  if (standing.rounds.empty()) return std::nullopt;
  standing.apart = series->second.near_times_of(loop, distance).empty();
  standing.microseconds = summarise(standing.rounds).p50;
  return standing;
}

bool is_better(const Standing& one, const Standing& other) {
  if (!one.microseconds) return false;
  return !other.microseconds || *one.microseconds < *other.microseconds;
}

void rank_others(Row& row) {
  for (const auto& [name, standing] : row.others) {
    if (is_bare(name) || !standing.microseconds) continue;
    if (row.best.empty() || *standing.microseconds < *row.others[row.best].microseconds) row.best = name;
  }
  if (row.best.empty() || !row.rondo.microseconds) return;
  const double theirs = *row.others[row.best].microseconds;
  if (theirs > 0) row.ratio = *row.rondo.microseconds / theirs;
}

}  // namespace

std::vector<Loop> loops_for(const ComparisonPlan& plan, int ranks) {
  std::vector<Loop> loops;
  for (const Operation operation : plan.operations) {
    if (facts(operation).point_to_point() && ranks != 2) continue;
    if (operation == Operation::barrier) {
      loops.push_back({operation});
      continue;
    }
    for (const std::size_t bytes : plan.sizes) loops.push_back({operation, bytes});
  }
  return loops;
}

std::string describe(const Row& row) {
  const std::string size = row.operation == Operation::barrier ? "" : " " + format_size(row.bytes);
  return fmt::format("{}{}, {} ranks, {}", facts(row.operation).name, size, row.ranks, to_string(row.path));
}

std::string name_of_best(const Row& row) {
  if (row.best.empty()) return "-";
  const std::string& variant = row.others.at(row.best).variant;
  return variant == "default" ? row.best : fmt::format("{} ({})", row.best, variant);
}

std::vector<Row> compare(const std::vector<Entry>& entries, const ComparisonPlan& plan, const CoreDistance& distance) {
  std::vector<Row> rows;
  for (const Path path : plan.paths) {
    for (const int ranks : plan.ranks) {
      for (const Loop& loop : loops_for(plan, ranks)) {
        Row row{path, ranks, loop.operation, loop.bytes, {}, {}, {}, {}};
        row.rondo.trouble = "not measured";
        for (const Entry& entry : entries) {
          if (entry.contender.path != path) continue;
          const auto standing = standing_of(entry, ranks, loop, distance);
          if (!standing) continue;
          Standing& best = entry.contender.name == kRondo ? row.rondo : row.others[entry.contender.name];
          if (best.variant.empty() || is_better(*standing, best)) best = *standing;
        }
        rank_others(row);
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

std::size_t unlike_cells(const std::vector<Row>& rows) {
  return static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), [](const Row& row) {
    return row.ratio && row.rondo.apart != row.others.at(row.best).apart;
  }));
}

std::optional<GeometricMean> geometric_mean(const std::vector<Row>& rows, Path path, const std::string& against) {
  double logarithms = 0;
  std::size_t cells = 0;
  for (const Row& row : rows) {
    if (row.path != path || !row.rondo.microseconds) continue;
    const auto other = row.others.find(against.empty() ? row.best : against);
    if (other == row.others.end() || !other->second.microseconds || *other->second.microseconds <= 0) continue;
    logarithms += std::log(*row.rondo.microseconds / *other->second.microseconds);
    ++cells;
  }
  if (cells == 0) return std::nullopt;
  return GeometricMean{std::exp(logarithms / static_cast<double>(cells)), cells};
}

std::vector<std::string> peers_lacking(const std::vector<Row>& rows, const ComparisonPlan& plan) {
  std::vector<std::string> lacking;
  bool any = false;
  for (const std::string& name : plan.peers) {
    if (is_bare(name)) continue;
    const bool measured = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
      const auto other = row.others.find(name);
      return other != row.others.end() && other->second.microseconds;
    });
    any |= measured;
    if (!measured) lacking.push_back(name);
  }
  if (any && !plan.peers_named) lacking.clear();
  return lacking;
}

std::vector<Row> rows_above(const std::vector<Row>& rows, double limit) {
  std::vector<Row> above;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(above),
               [limit](const Row& row) { return !row.rondo.microseconds || (row.ratio && *row.ratio > limit); });
  return above;
}

}  // namespace rondo::bench
