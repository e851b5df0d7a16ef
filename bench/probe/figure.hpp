#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rondo::bench {

/// One answer of the probe: what was measured so many times, or a sentence where no number tells it.
struct Figure {
  std::string what;
  std::size_t bytes = 0;  ///< 0: of no size
  std::string unit;       ///< "us", "GB/s"; empty: `answer` says it
  double median = 0;
  double min = 0;
  double max = 0;
  std::size_t samples = 0;
  std::string answer;
  // What its process does not say of itself:
  std::string item;
  int ranks = 0;
  bool failed = false;  ///< there is no answer, and `answer` says why
};

/// Of at least one sample.
Figure measured(std::string what, std::size_t bytes, std::string unit, std::vector<double> samples);
Figure answered(std::string what, std::string answer);

/// As it travels from a process to the one that started it: one line, without its end.
std::string to_line(const Figure& figure);
/// Nothing where the line is no figure.
std::optional<Figure> from_line(const std::string& line);

/// What is known of the machine, as the report has it.
struct ProbedMachine {
  std::string device;
  std::string driver;
  std::string date;  ///< when the probe began, UTC
};

/// A line of the table.
std::string table_line(const Figure& figure);
/// All that there is, as JSON text.
std::string json_text(const ProbedMachine& machine, bool quick, const std::vector<Figure>& figures);

}  // namespace rondo::bench
