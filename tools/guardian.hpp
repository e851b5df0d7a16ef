#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/job_cgroup.hpp"
#include "tools/process.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {

/// The descriptor a rank finds its control connection on. High, so that a shell script's own `exec 3>file` does not hit
/// it.
inline constexpr int kControlDescriptor = 100;

/// How one rank is started. The descriptors are the rank's ends.
struct RankStart {
  std::string program;  ///< a path
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< NAME=VALUE
  std::optional<cpu_set_t> cpus;
  Descriptor input, output, error, control;
};

/// What the guardian tells, in the order in which it happened.
struct Report {
  enum class Kind : std::int32_t { started, no_pipe, no_process, refused, ended };
  Kind kind;
  std::int32_t rank;
  std::int32_t pid;
  std::int32_t value;  ///< no_...: errno; refused: errno of exec; ended: the status that waitpid gave
};

/// What the launcher tells the guardian.
struct Order {
  enum class Kind : std::int32_t { signal, sweep, kill };
  Kind kind;
  std::int32_t signal;
};

/// A process between the launcher and the ranks, so that nothing outlives the launcher, whatever happens to it.
///
///     launcher ── guardian ─┬─ rank 0 ── ...
///                           └─ rank 1 ── ...
///
/// The guardian is the ranks' parent and a subreaper: whatever they start, in whatever session, stays below it or
/// becomes its child when its own parent ends, so killing its children until it has none ends the whole job. It does
/// that when told to and when the launcher's end of their channel closes, which not even SIGKILL of the launcher
/// prevents. It lives as long as one attempt and ends when no process of the attempt is left. Should the guardian
/// itself be killed, the ranks die with it (PR_SET_PDEATHSIG) and the launcher, a subreaper too, kills what they leave.
class Guardian {
 public:
  /// Forks it; it starts the ranks, in order. Call while this process has one thread. Takes the ranks' descriptors.
  Guardian(std::vector<RankStart> ranks, const Inherited& inherited, const std::string& cgroup_name);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// Readable when there is a report or the guardian has ended.
  int descriptor() const { return channel_.get(); }

  enum class Read { report, nothing, ended };
  Read read(Report& report);

  /// To the process group of each rank that has not ended.
  void signal(int signal);
  /// To what ended ranks left behind, now and as it appears.
  void sweep(int signal);
  /// SIGKILL to all, until none is left.
  void kill();

  /// After `ended`. How the guardian ended, as waitpid tells: where that is not 0, this ended what it had left.
  int conclude();

 private:
  void order(const Order& order);

  JobCgroup cgroup_;
  Descriptor channel_;
  pid_t pid_ = -1;
  std::vector<pid_t> not_ours_;  ///< children this process had before (its shell's, taken over by exec)
};

}  // namespace rondo::detail
