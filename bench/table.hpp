#pragma once

#include <string>
#include <vector>

#include "bench/result.hpp"

namespace rondo::bench {

// The table on standard output: nccl-tests' columns, with p50 and p99 after the mean time. Lines that are not results
// begin with `#`, so that scripts which read nccl-tests' tables read these.

/// On devices columns `call`, `enqueue` and `copy%` come last.
std::string table_head(bool on_devices = false);
std::string table_row(const Result& result);
/// "# Out of bounds values : 0 OK" and the average bus bandwidth.
std::string table_foot(const std::vector<Result>& results);

/// Two decimals, fewer where seven columns are too few for them.
std::string short_number(double value);

/// Two decimals, three below 0.1.
std::string short_ratio(double ratio);

}  // namespace rondo::bench
