#pragma once

#include <memory>

#include "bench/compare/loop.hpp"
#include "bench/raw/memory_ranks.hpp"

namespace rondo::bench {

/// Whether there is a bare form of a loop: of short and of long data that move, and of sums that a line has room for.
bool has_bare_form(const Loop& loop);

/// Short data go in the lines. What is longer is read by who wants it out of the memory where it lies, which then is
/// kept as it is until all have it: one copy.
std::unique_ptr<Exercise> bare_exercise(MemoryRanks& ranks, const Settings& settings, const Shape& shape);

}  // namespace rondo::bench
