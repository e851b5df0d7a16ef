#pragma once

#include <vector>

#include "tools/guardian.hpp"

namespace rondo::detail {

/// The guardian's side, in the forked process: starts the ranks, carries out orders, reports, and ends the process when
/// no child is left. Every signal is blocked on entry.
[[noreturn]] void guard(std::vector<RankStart> ranks, const Inherited& inherited, JobCgroup cgroup, Descriptor channel);

}  // namespace rondo::detail
