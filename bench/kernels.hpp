#pragma once

#include <string>
#include <vector>

namespace rondo::bench {

/// `rondo-bench kernels`: how fast the loops that combine elements are. Returns the exit status.
int kernels_command(const std::vector<std::string>& arguments);

}  // namespace rondo::bench
