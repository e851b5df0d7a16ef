#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cuda/device_under_test.hpp"
#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/rounds.hpp"
#include "tests/support/seeds.hpp"

namespace rondo::test {

/// Words for rondo-run. `variables`: "NAME=VALUE".
inline std::vector<std::string> words_for(int number, const std::vector<std::string>& command,
                                          const std::vector<std::string>& variables) {
  std::vector<std::string> words{"-n", std::to_string(number), "-x", "RONDO_TIMEOUT=30"};
  for (const std::string& variable : variables) words.insert(words.end(), {"-x", variable});
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

/// Ranks of a program under rondo-run that do one act.
inline Launched::Ended run_ranks(const std::string& program, int number, const std::string& act,
                                 const std::vector<std::string>& variables = {}) {
  return launch(words_for(number, {program, act}, variables));
}

/// The same, each with a variable of its own: the shell makes its value of the rank's number, $RONDO_RANK.
inline Launched::Ended run_ranks_with_own(const std::string& variable, const std::string& program, int number,
                                          const std::string& act, const std::vector<std::string>& variables = {}) {
  return launch(words_for(number, {"/bin/sh", "-c", variable + " exec " + program + " " + act}, variables));
}

/// Variables by which the stand-in is late, by 0 not at all, and under a sanitizer by the last of them alone:
/// TEST_MORE_SEEDS=N makes them N times as many. A real driver knows none: one job is enough.
inline std::vector<std::string> seeds(int first, int last) {
  const std::uint64_t usual = rondo::testing::rounds(static_cast<std::uint64_t>(last - first + 1));
  first = last - static_cast<int>(usual) + 1;
  const std::uint64_t number = rondo::testing::is_stand_in() ? rondo::testing::more_seeds(usual) : 1;
  std::vector<std::string> variables;
  for (std::uint64_t i = 0; i < number; ++i)
    variables.push_back("FAKECUDA_SEED=" + std::to_string(static_cast<std::uint64_t>(first) + i));
  return variables;
}

/// Lines of a log in which something is wrong: not that a build without nvcc has no kernels, nor that a slow machine
/// keeps a collective waiting.
inline std::string complaints(const std::string& log) {
  std::istringstream lines(log);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto says = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (!says("this build has no kernels") && (!says(": waiting ") || says("deadlock"))) kept += line + '\n';
  }
  return kept;
}

/// The same, and all is well.
inline void check_ranks(const std::string& program, int number, const std::string& act,
                        const std::vector<std::string>& variables = {}) {
  const auto ended = run_ranks(program, number, act, variables);
  INFO(act << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(complaints(ended.err).empty());
}

}  // namespace rondo::test
