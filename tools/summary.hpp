#pragma once

#include <sys/types.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tools/job_cgroup.hpp"

namespace rondo::detail {

/// What became of one rank.
struct RankRecord {
  enum class End {
    none,        ///< it runs, or was never started
    own,         ///< it ended before anything was done to it
    terminated,  ///< after the launcher had sent it a signal to end
    killed,      ///< after SIGKILL was sent too
  };
  pid_t pid = -1;
  End end = End::none;
  int wait_status = 0;
};

/// How one attempt went.
struct Outcome {
  enum class Kind {
    succeeded,
    rank_failed,
    not_run,        ///< the program could not be run: `error` is errno
    not_started,    ///< `first_rank` has no process, for `reason`: `error` is errno
    timed_out,      ///< --timeout
    signalled,      ///< the launcher was told to stop by `signal`
    guardian_lost,  ///< the guardian process ended too early: `guardian_end`, as waitpid tells
    output_failed,  ///< the launcher could not write what the ranks print
  };
  Kind kind = Kind::succeeded;
  int first_rank = -1;  ///< rank_failed, not_run, not_started
  int signal = 0;
  int error = 0;
  int guardian_end = 0;
  int left_before = -1;  ///< rank_failed: who ended in the middle of the job, without a failure of its own
  std::string reason;    ///< what the first rank said of itself when it left, if it did; not_started: what failed
  OomKills oom_before, oom_after;
  /// timed_out, signalled: by rank, in which call it waited for others until then; empty: in none, nothing: it had
  /// ended.
  std::vector<std::optional<std::string>> waited;
};

int exit_status(const Outcome& outcome, const std::vector<RankRecord>& ranks);

/// What the summary says beside the outcome.
struct SummaryFacts {
  std::string program;
  std::string host;
  std::string timeout;       ///< as text, with its unit
  std::string killed_after;  ///< from the first signal to SIGKILL, if it came to that
  int attempt = 0;
  int attempts = 1;
};

/// For the user, several lines, each with its end; empty when all went well.
std::string summarize(const Outcome& outcome, const std::vector<RankRecord>& ranks, const SummaryFacts& facts,
                      const std::deque<std::string>& last_lines);

/// {0, 1, 2, 5} -> "ranks 0-2 and 5"; {3} -> "rank 3".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace rondo::detail
