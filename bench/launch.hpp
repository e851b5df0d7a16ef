#pragma once

#include <string>
#include <vector>

#include "bench/settings.hpp"

namespace rondo::bench {

/// Becomes rondo-run, which starts `settings.ranks` of this program with the same arguments. Does not return. Throws
/// UsageError inside of a job, std::runtime_error where rondo-run is not found or cannot be run.
[[noreturn]] void start_ranks(const Settings& settings, const std::vector<std::string>& arguments);

/// Path of rondo-run. Throws std::runtime_error that says where it was looked for.
std::string find_launcher();

}  // namespace rondo::bench
