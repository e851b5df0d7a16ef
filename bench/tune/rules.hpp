#pragma once

#include <string>
#include <vector>

#include <rondo/tuning.hpp>

namespace rondo::bench {

/// The rules as lines of the table in collectives/tuning.cpp.
std::string rules_to_code(const std::vector<TuningRule>& rules);

/// "all_reduce up to 16K, 3 to 8 ranks that share cores, one host: sliced, whole"
std::string rule_to_words(const TuningRule& rule);
/// "ring, chunks of 64K"
std::string choice_to_words(const Choice& choice);

/// Whether the rule answers the question, alone.
bool answers(const TuningRule& rule, const Question& question);

}  // namespace rondo::bench
