#pragma once

#include <string>
#include <vector>

#include "bench/compare/comparison.hpp"

namespace rondo::bench {

/// `rondo-bench compare`: the same loops on rondo and on other libraries, in turn, round after round. Returns the exit
/// status: `kExitWrong` if `--fail-above` was given and a cell is above it, or a library gave nothing to compare with.
int compare_command(const std::vector<std::string>& arguments);

struct CompareSettings {
  ComparisonPlan plan;
  std::optional<double> fail_above;
  std::string json;
  std::string markdown;
  std::string plot;
};

/// Throws UsageError or HelpAsked.
CompareSettings parse_compare_settings(const std::vector<std::string>& arguments);

}  // namespace rondo::bench
