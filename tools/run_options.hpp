#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rondo::detail {

/// What the user asked rondo-run for.
struct RunOptions {
  int size = 1;
  std::vector<std::string> command;  ///< the program and its arguments
  bool prefix = true;
  std::string output_directory;  ///< empty: no files
  std::optional<std::chrono::nanoseconds> timeout;
  std::chrono::nanoseconds grace = std::chrono::seconds(5);
  std::vector<std::pair<std::string, std::string>> exports;  ///< of -x
  bool bind_to_core = false;
  bool report_bindings = false;
  int max_restarts = 0;
  bool dry_run = false;
};

/// Reads the command line. `exit_status` is set when there is nothing more to do: --help and --version, which it has
/// printed. Throws LaunchError for what it does not understand.
RunOptions parse_options(int argc, const char* const* argv, std::optional<int>& exit_status);

}  // namespace rondo::detail
