#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/result.hpp"
#include "bench/settings.hpp"

namespace rondo::bench {

/// {"version":..., "ranks":..., "results":[...]}; `wrong` is null where results were not checked.
void write_json(std::ostream& to, const std::string& version, int ranks, const std::vector<Result>& results);

/// A line of names, then a line per result.
void write_csv(std::ostream& to, const std::vector<Result>& results);

/// Throws UsageError if a file that the settings name cannot be written, or gnuplot is needed and not there: before
/// anything is measured.
void check_reports(const Settings& settings);

/// Writes the files that the settings name. Throws std::runtime_error.
void write_reports(const Settings& settings, int ranks, const std::vector<Result>& results);

}  // namespace rondo::bench
