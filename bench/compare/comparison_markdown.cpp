#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/compare/comparison_report.hpp"
#include "bench/table.hpp"

namespace rondo::bench {
namespace {

std::string cell(const Row& row) {
  if (!row.rondo.microseconds) return row.rondo.trouble;
  const std::string time = short_number(*row.rondo.microseconds);
  return row.ratio ? fmt::format("{} ({})", short_ratio(*row.ratio), time) : fmt::format("- ({})", time);
}

std::string line(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const auto& one : cells) text += fmt::format(" {} |", one);
  return text + "\n";
}

}  // namespace

std::string comparison_markdown(const Comparison& comparison) {
  const ComparisonPlan& plan = comparison.plan;
  std::vector<std::string> heads{"path", "operation", "ranks"};
  for (const std::size_t size : plan.sizes) heads.push_back(format_size(size));
  std::string text = line(heads) + line(std::vector<std::string>(heads.size(), "---"));

  // A line for each path, operation and number of ranks; the rows come by path, ranks, operation, size.
  for (const Path path : plan.paths) {
    for (const Operation operation : plan.operations) {
      for (const int ranks : plan.ranks) {
        std::vector<std::string> cells{std::string(to_string(path)), std::string(facts(operation).name),
                                       std::to_string(ranks)};
        for (const Row& row : comparison.rows) {
          if (row.path == path && row.operation == operation && row.ranks == ranks) cells.push_back(cell(row));
        }
        if (cells.size() > 3) text += line(cells);
      }
    }
  }
  return text;
}

}  // namespace rondo::bench
