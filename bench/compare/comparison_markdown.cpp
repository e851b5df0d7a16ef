#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rondo/size.hpp>

#include "bench/compare/comparison_report.hpp"
#include "bench/table.hpp"

namespace rondo::bench {
namespace {

/// A letter for each configuration that is the best somewhere, as they come.
class Letters {
 public:
  char of(const std::string& name) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    const auto place = found - names_.begin();
    if (found == names_.end()) names_.push_back(name);
    return static_cast<char>('a' + place);
  }
  std::string legend() const {
    std::string text;
    for (std::size_t i = 0; i < names_.size(); ++i)
      text += fmt::format("{}{}: {}", i == 0 ? "\n" : ", ", static_cast<char>('a' + i), names_[i]);
    return text.empty() ? text : text + '\n';
  }

 private:
  std::vector<std::string> names_;
};

std::string cell(const Row& row, Letters& letters) {
  if (!row.rondo.microseconds) return row.rondo.trouble;
  const std::string time = short_number(*row.rondo.microseconds);
  if (!row.ratio) return fmt::format("- ({})", time);
  return fmt::format("{} ({}) {}", short_ratio(*row.ratio), time, letters.of(name_of_best(row)));
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

  Letters letters;
  // A line for each path, operation and number of ranks; the rows come by path, ranks, operation, size.
  for (const Path path : plan.paths) {
    for (const Operation operation : plan.operations) {
      for (const int ranks : plan.ranks) {
        std::vector<std::string> cells{std::string(to_string(path)), std::string(facts(operation).name),
                                       std::to_string(ranks)};
        for (const Row& row : comparison.rows) {
          if (row.path == path && row.operation == operation && row.ranks == ranks) cells.push_back(cell(row, letters));
        }
        if (cells.size() > 3) text += line(cells);
      }
    }
  }
  return text + letters.legend();
}

}  // namespace rondo::bench
