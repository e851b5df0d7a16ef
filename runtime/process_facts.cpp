#include <unistd.h>

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
  const std::string name = read_of(process, "comm");
  if (name.starts_with("hydra") || name.starts_with("mpi")) return false;
  const std::string given = '\0' + read_of(process, "environ");
  return given.find('\0' + own + '\0') != std::string::npos;
}

int launcher() {
  int process = ::getppid();
  const char* const rank = std::getenv("PMI_RANK");
  while (rank != nullptr && process > 1 && wraps(process, fmt::format("PMI_RANK={}", rank)))
    process = parent_of(process);
  return process;
}

}  // namespace

ProcessFacts process_facts() { return {::geteuid(), launcher()}; }

}  // namespace rondo::detail
