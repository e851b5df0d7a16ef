#pragma once

#include <string>
#include <vector>

namespace rondo::bench {

/// `rondo-bench probe [options]`: what a GPU and its driver do where documents do not say it. Returns the exit status:
/// 77 where there is none.
int probe_command(const std::vector<std::string>& arguments);

}  // namespace rondo::bench
