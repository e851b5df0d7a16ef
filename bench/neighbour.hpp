#pragma once

#include <string>
#include <vector>

namespace rondo::bench {

/// `rondo-bench neighbour`: what ranks that wait cost one that computes. Returns the exit status.
int neighbour_command(const std::vector<std::string>& arguments);

}  // namespace rondo::bench
