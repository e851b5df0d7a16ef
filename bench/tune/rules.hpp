#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <rondo/tuning.hpp>

namespace rondo::bench {

/// The rules as JSON: an array of objects with the fields of `TuningRule`, in the order in which they are searched.
///
///     {"collective": "all_reduce", "up_to_bytes": 16384, "ranks_from": 3, "ranks_to": 8, "crowd": "oversubscribed",
///      "reach": "one_host", "algorithm": "sliced", "chunk_bytes": 0}
///
/// `up_to_bytes` and `ranks_to` are null where there is no bound; crowd is any, fits or oversubscribed; reach is any or
/// one_host.
std::string rules_to_json(const std::vector<TuningRule>& rules);
/// Throws std::runtime_error that names the rule and what is wrong with it.
std::vector<TuningRule> rules_from_json(const std::string& text);

/// The rules as lines of the table in collectives/tuning.cpp.
std::string rules_to_code(const std::vector<TuningRule>& rules);

/// "all_reduce up to 16K, 3 to 8 ranks that share cores, one host: sliced, whole"
std::string rule_to_words(const TuningRule& rule);
/// "ring, chunks of 64K"
std::string choice_to_words(const Choice& choice);

/// Whether the rule answers the question, alone.
bool answers(const TuningRule& rule, const Question& question);

}  // namespace rondo::bench
