#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::detail {

/// What all ranks of one job have in common, as far as they are told.
struct JobFacts {
  std::string id;
  int size = 1;
  int max_restarts = 0;
  int meeting_port = 0;  ///< free when the job began: MASTER_PORT, for programs that meet by torchrun's variables
};

/// The variables that tell a rank who it is: rondo's own, and torchrun's for programs that know nothing of rondo.
std::vector<std::pair<std::string, std::string>> rank_variables(const JobFacts& job, int rank, int attempt);

/// Those that -x must not touch.
bool is_set_per_rank(std::string_view name);

/// The launcher's environment, then `variables`, then `exports` (so a user may set MASTER_PORT), each name once.
std::vector<std::string> make_environment(const std::vector<std::pair<std::string, std::string>>& variables,
                                          const std::vector<std::pair<std::string, std::string>>& exports);

/// A TCP port of the loopback address that nobody has at the moment.
int find_free_port();

/// The file that a shell would run for `name`. Throws LaunchError with 127 where there is none, 126 where it may not
/// run.
std::string find_program(const std::string& name);

/// As it could be typed into a shell.
std::string shell_quoted(std::string_view word);

}  // namespace rondo::detail
