#pragma once

#include <string>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

namespace rondo::test {

/// Ranks of a program under rondo-run that do one act. `variables`: "NAME=VALUE".
inline Launched::Ended run_ranks(const std::string& program, int number, const std::string& act,
                                 const std::vector<std::string>& variables = {}) {
  std::vector<std::string> words{"-n", std::to_string(number), "-x", "RONDO_TIMEOUT=30"};
  for (const std::string& variable : variables) words.insert(words.end(), {"-x", variable});
  words.insert(words.end(), {"--", program, act});
  return launch(words);
}

/// The same, and all is well, without a word.
inline void check_ranks(const std::string& program, int number, const std::string& act,
                        const std::vector<std::string>& variables = {}) {
  const auto ended = run_ranks(program, number, act, variables);
  INFO(act << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(ended.err.empty());
}

}  // namespace rondo::test
