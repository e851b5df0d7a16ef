#include <array>

#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/compare/comparison_report.hpp"
#include "bench/plot.hpp"

namespace rondo::bench {
namespace {

constexpr std::array kColours{"#1f5fa8", "#5e35b1", "#2e7d32", "#7b1fa2", "#c62828", "#00838f",
                              "#8d6e63", "#b3541e", "#f9a825", "#546e7a", "#000000"};

std::string points_of(const std::vector<Row>& rows, Path path, int ranks, Operation operation) {
  std::string points;
  for (const Row& row : rows) {
    if (row.path == path && row.ranks == ranks && row.operation == operation && row.ratio && row.bytes > 0)
      points += fmt::format("{} {}\n", row.bytes, *row.ratio);
  }
  return points;
}

/// One panel; `lines` gets the data that it draws.
std::string panel(const Comparison& comparison, Path path, int ranks, std::string& data) {
  std::string lines = "1 with lines linecolor '#a0a0a0' linewidth 2 notitle";
  for (const Operation operation : comparison.plan.operations) {
    const std::string points = points_of(comparison.rows, path, ranks, operation);
    if (points.empty()) continue;
    const std::string name = fmt::format("${}_{}_{}", facts(operation).name, to_string(path), ranks);
    data += fmt::format("{} << END\n{}END\n", name, points);
    lines += fmt::format(
        ", {} using 1:2 with linespoints linecolor '{}' linewidth 1.5 pointtype 7 pointsize 0.5 title '{}' noenhanced",
        name, kColours[static_cast<std::size_t>(operation) % kColours.size()], facts(operation).name);
  }
  return fmt::format("set title '{}, {} ranks'\nplot {}\n", to_string(path), ranks, lines);
}

std::string size_labels(const std::vector<std::size_t>& sizes) {
  std::string labels;
  for (const std::size_t size : sizes)
    labels += fmt::format("{}'{}' {}", labels.empty() ? "" : ", ", format_size(size), size);
  return labels;
}

}  // namespace

std::string comparison_plot(const std::string& path, const Comparison& comparison) {
  const std::size_t columns = comparison.plan.ranks.size();
  const std::size_t lines = comparison.plan.paths.size();
  std::string data;
  std::string panels;
  for (const Path one : comparison.plan.paths) {
    for (const int ranks : comparison.plan.ranks) panels += panel(comparison, one, ranks, data);
  }
  std::string script = data + plot_style(static_cast<int>(120 + 440 * columns), static_cast<int>(80 + 380 * lines));
  script += fmt::format("set output {}\n", plot_text(path));
  std::string title = "rondo's time over the best other library's (below 1: rondo is faster)";
  if (comparison.devices) title += fmt::format(", memory of {}", comparison.devices->names);
  script += fmt::format("set multiplot layout {},{} title {}\n", lines, columns, plot_text(title));
  script += fmt::format("set xtics ({})\nset logscale y\nset yrange [*<0.5:2<*]\n", size_labels(comparison.plan.sizes));
  script +=
      "set offsets graph 0.03, graph 0.03, 0, 0\nset ytics add ('0.5' 0.5, '2' 2)\nset lmargin 8\nset key outside "
      "right samplen 1\nset rmargin 20\n";
  return script + panels + "unset multiplot\n";
}

}  // namespace rondo::bench
