#pragma once

#include <string>
#include <vector>

#include <rondo/config.hpp>
#include <rondo/tuning.hpp>

#include "bench/operation.hpp"
#include "bench/tune/prediction.hpp"

namespace rondo::bench {

/// `rondo-bench explain OPERATION --size S --ranks N`: what is chosen, why, and what the alternatives cost; of a
/// message, how it goes.
int explain_command(const std::vector<std::string>& arguments);

struct ExplainSettings {
  Operation operation = Operation::all_reduce;
  Question question;
  Place place;
  bool measure = false;
  bool allocate = false;  ///< buffers from rondo::allocate
  int rounds = 3;
  double seconds = 0.05;
};
/// Throws UsageError or HelpAsked.
ExplainSettings parse_explain_settings(const std::vector<std::string>& arguments);

/// The two lines that say what is chosen and why; `config` as of the ranks.
std::string reason_text(const Question& question, const Config& config);

/// The line that says what buffers of rondo::allocate change.
std::string allocated_text(Operation operation, const Question& question, Algorithm algorithm);

}  // namespace rondo::bench
