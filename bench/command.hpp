#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rondo::bench {

/// What `main` of every program here does: runs `command` on the arguments, prints a help text on standard output and
/// an error, in one line that begins with `program`, on standard error, and returns the exit status.
int run_command(const std::string& program, int argc, char** argv,
                const std::function<int(const std::vector<std::string>&)>& command);

/// This process's rank as a launcher's environment has it; 0 where there is no launcher.
int launched_rank();

}  // namespace rondo::bench
