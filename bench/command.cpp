#include "bench/command.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "bench/settings.hpp"

namespace rondo::bench {
namespace {

/// The ranks' variables of rondo-run, torchrun, Open MPI, MPICH and Slurm.
constexpr std::array kRankVariables{"RONDO_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

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
    return command(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const HelpAsked& help) {
    if (launched_rank() == 0) fmt::print("{}", help.what());
    return kExitGood;
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return kExitUsage;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", program, error.what());
    return kExitFailed;
  }
}

}  // namespace rondo::bench
