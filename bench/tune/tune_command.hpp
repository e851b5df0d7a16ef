#pragma once

#include <string>
#include <vector>

#include "bench/tune/tuner.hpp"

namespace rondo::bench {

/// `rondo-bench tune`: measures every algorithm of every collective and prints the rules that follow.
int tune_command(const std::vector<std::string>& arguments);

struct TuneSettings {
  TuningPlan plan;
  std::string from;  ///< read instead of measuring
  std::string table;
  std::string json;
  bool code = false;
};
/// Throws UsageError or HelpAsked.
TuneSettings parse_tune_settings(const std::vector<std::string>& arguments);

}  // namespace rondo::bench
