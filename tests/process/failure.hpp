#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

namespace rondo::test {

/// From a rank's end to the error of every other one. Where nobody else needs the cores: the least of some runs counts.
inline constexpr long kSoonMilliseconds = 1000;
inline constexpr int kRuns = 3;

/// What one rank said of the error that ended it.
struct Heard {
  int rank = -1;
  long milliseconds = 0;  ///< since the fault
  std::string text;       ///< "CODE peer RANK: what()"
};

struct Failure {
  Launched::Ended ended;
  std::vector<Heard> heard;
};

inline Failure failure_of(Launched::Ended ended) {
  Failure failure{std::move(ended), {}};
  const auto after = [](const std::string& line, const std::string& mark) {
    const auto found = line.find(mark);
    return found == std::string::npos ? std::string() : line.substr(found + mark.size());
  };
  long fault_at = 0;
  for (const std::string& line : lines_of(failure.ended.out)) {
    if (const auto at = after(line, "fault at "); !at.empty()) fault_at = std::stol(at);
  }
  for (const std::string& line : lines_of(failure.ended.out)) {
    const auto at = after(line, "error at ");
    if (at.empty()) continue;
    std::size_t digits = 0;
    const long milliseconds = std::stol(at, &digits) - fault_at;
    failure.heard.push_back({std::stoi(line.substr(1)), milliseconds, at.substr(digits + 1)});
  }
  return failure;
}

/// Checks what comes of it, and that all heard of it within `limit` milliseconds; sanitizers are not held to that.
template <typename Check>
void check_failure(const std::vector<std::string>& words, long limit, const Check& check) {
  long slowest = limit;
  for (int run = 0; run < kRuns && slowest >= limit; ++run) {
    const Failure failure = failure_of(launch(words));
    check(failure);
    slowest = 0;
    for (const Heard& heard : failure.heard) slowest = std::max(slowest, HOW_SOON_COUNTS ? heard.milliseconds : 0);
  }
  CHECK(slowest < limit);
}

}  // namespace rondo::test
