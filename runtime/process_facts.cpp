#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "runtime/identity.hpp"

namespace rondo::detail {
namespace {

/// Empty where it cannot be read.
std::string read_of(int process, std::string_view what) {
  std::ifstream file(fmt::format("/proc/{}/{}", process, what));
  return {std::istreambuf_iterator<char>(file), {}};
}

int parent_of(int process) {
  const std::string status = read_of(process, "status");
  const auto found = status.find("\nPPid:");
  return found == std::string::npos ? 0 : std::atoi(status.c_str() + found + std::string_view("\nPPid:").size());
}

/// A script in which this rank was wrapped: it was given the rank's variables, and is not the launcher of a job within
/// another one, which may have such variables, too.
bool wraps(int process, const std::string& own) {
  constexpr std::array kStarters{"mpiexec\n",      "mpirun\n",        "mpiexec.hydra\n",
                                 "mpirun.hydra\n", "mpiexec.mpich\n", "mpirun.mpich\n"};
  const std::string name = read_of(process, "comm");
  if (name.starts_with("hydra") || std::find(kStarters.begin(), kStarters.end(), name) != kStarters.end()) return false;
  const std::string given = '\0' + read_of(process, "environ");
  return given.find('\0' + own + '\0') != std::string::npos;
}

int launcher(const Environment& environment) {
  int process = ::getppid();
  const auto rank = environment.find("PMI_RANK");
  if (rank == environment.end()) return process;
  while (process > 1 && wraps(process, fmt::format("PMI_RANK={}", rank->second))) process = parent_of(process);
  return process;
}

}  // namespace

ProcessFacts process_facts(const Environment& environment) { return {::geteuid(), launcher(environment)}; }

}  // namespace rondo::detail
