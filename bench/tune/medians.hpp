#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/tune/tuner.hpp"

namespace rondo::bench {

/// What tune has measured: {"version":..., "measured":[...]}, a line for each question; `table_to_best` is null where
/// the table's choice was not measured.
void write_medians(std::ostream& to, const std::vector<Answered>& answers);

/// Reads that again, for --from. Throws UsageError: which file, and what is wrong with it.
std::vector<Answered> read_medians(const std::string& path);

}  // namespace rondo::bench
