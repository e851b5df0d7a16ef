#pragma once

#include <string>
#include <vector>

namespace rondo::bench {

/// `rondo-bench raw latency|bandwidth [options]`: what two bare sockets reach. Returns the exit status.
int raw_command(const std::vector<std::string>& arguments);

}  // namespace rondo::bench
