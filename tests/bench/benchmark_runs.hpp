#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/compare/child.hpp"

// Runs of the benchmark as its users start it. RONDO_BENCH is its path; rondo-run is found from there.

namespace rondo::bench {

inline Outcome run_shell(const std::string& command) {
  constexpr double kLongEnough = 120;
  return run_program({{"/bin/sh", "-c", command}, {}}, kLongEnough);
}

inline Outcome bench(const std::string& arguments) { return run_shell(std::string(RONDO_BENCH) + " " + arguments); }

/// The rows of a report.
inline std::vector<std::string> results_in(const std::string& output) {
  std::vector<std::string> rows;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != '#') rows.push_back(line);
  }
  return rows;
}

inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace rondo::bench
