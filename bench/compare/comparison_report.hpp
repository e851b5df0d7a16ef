#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/compare/comparison.hpp"
#include "bench/compare/core_distance.hpp"
#include "bench/device_figures.hpp"

namespace rondo::bench {

/// All that a comparison has to say.
struct Comparison {
  ComparisonPlan plan;
  int cores = 1;
  std::vector<Entry> entries;
  std::vector<Absence> absent;
  std::vector<Row> rows;
  std::optional<FoundDevices> devices;  ///< where buffers are on devices
  CoreDistance distance;                ///< as it was when programs were started
};

/// Who is compared, how each is started, who is left out and why.
std::string contenders_text(const std::vector<Entry>& entries, const std::vector<Absence>& absent);

/// For each path a table of medians and ratios, then means and troubles. Lines that are not results begin with `#`.
std::string comparison_table(const Comparison& comparison);

void write_json(std::ostream& to, const Comparison& comparison);

/// A table with a line for each path, operation and number of ranks, and in each cell the ratio and, in parentheses,
/// rondo's median in microseconds.
std::string comparison_markdown(const Comparison& comparison);

/// What gnuplot is told: the ratio over the size, a panel for each path and number of ranks.
std::string comparison_plot(const std::string& path, const Comparison& comparison);

}  // namespace rondo::bench
