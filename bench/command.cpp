#include "bench/command.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "bench/settings.hpp"

namespace rondo::bench {
namespace {

/// The ranks' variables of rondo-run, torchrun, Open MPI, MPICH and Slurm.
constexpr std::array kRankVariables{"RONDO_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

/// Results that are not written count as none, also where writing failed before the end.
int written(const std::string& program, int status) {
  const bool failed_before = std::ferror(stdout) != 0;
  const int error = std::fflush(stdout) != 0 ? errno : 0;
  if (!failed_before && error == 0) return status;
  fmt::print(stderr, "{}: cannot write to standard output{}{}\n", program, error != 0 ? ": " : "",
             error != 0 ? std::strerror(error) : "");
  return status == kExitGood ? kExitFailed : status;
}

}  // namespace

int launched_rank() {
  for (const char* const name : kRankVariables) {
    if (const char* const value = std::getenv(name)) return std::atoi(value);
  }
  return 0;
}

int run_command(const std::string& program, int argc, char** argv,
                const std::function<int(const std::vector<std::string>&)>& command) {
  try {
    return written(program, command(std::vector<std::string>(argv + std::min(argc, 1), argv + argc)));
  } catch (const HelpAsked& help) {
    if (launched_rank() == 0) fmt::print("{}", help.what());
    return written(program, kExitGood);
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return kExitFailed;
  }
}

}  // namespace rondo::bench
