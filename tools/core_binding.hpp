#pragma once

#include <sched.h>

#include <string>
#include <vector>

namespace rondo::detail {

/// The processors of one core that this process may use (two where the core runs two hardware threads).
struct Core {
  cpu_set_t cpus;
  std::string name;  ///< "cpu 0,4"
};

/// The cores that this process may use, in the order of their first processor. Throws LaunchError.
std::vector<Core> bindable_cores();

}  // namespace rondo::detail
