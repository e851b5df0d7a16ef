#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <rondo/config.hpp>
#include <rondo/init_options.hpp>

#include "runtime/meeting_point.hpp"

namespace rondo::detail {

/// Of a world. A size above is a mistake, not a want of memory.
inline constexpr int kMostRanks = 65536;

/// Who this process is in its job, and where it meets the others.
struct Identity {
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  ///< among the ranks of this host; where the launcher does not say, their meeting does
  std::optional<int> local_size;  ///< ranks on this host, where the launcher says how many
  std::string job_id;             ///< equal on all ranks; empty where nothing names the job
  std::uint32_t attempt = 0;
  std::string source;  ///< "options", "rondo", "torchrun", "Open MPI", "PMI", "Slurm", "alone"
  MeetingPoint meeting;
};

/// What the operating system says of this process; a parameter so that tests can make it up.
struct ProcessFacts {
  unsigned uid = 0;
  int launcher = 0;  ///< its process, which names the job where it gives no id
};
ProcessFacts process_facts(const Environment& environment);

/// The configuration that `options` and `environment` make together.
Config configure(const InitOptions& options, const Environment& environment);

/// First hit wins: `options`, RONDO_*, torchrun, Open MPI, PMI (MPICH, Intel MPI), Slurm; a world of 1 only
/// where none is visible. A pure function. Throws Error{bad_configuration}, with the variables seen, where a
/// launcher is visible but incomplete, or two of them contradict each other.
Identity identify(const InitOptions& options, const Config& config, const Environment& environment,
                  const ProcessFacts& process);

/// The same, of this process.
Identity identify(const InitOptions& options, const Config& config);

}  // namespace rondo::detail
