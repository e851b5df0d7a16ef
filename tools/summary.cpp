#include "tools/summary.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "tools/process.hpp"

namespace rondo::detail {
namespace {

using End = RankRecord::End;

std::string how_it_ended(const RankRecord& rank, const SummaryFacts& facts) {
  const bool by_kill = WIFSIGNALED(rank.wait_status) && WTERMSIG(rank.wait_status) == SIGKILL;
  if (rank.end == End::none) return "still there";
  if (rank.end == End::killed && by_kill) return fmt::format("SIGKILL, {} after the first signal", facts.killed_after);
  if (WIFSIGNALED(rank.wait_status)) {
    return signal_name(WTERMSIG(rank.wait_status)) + (WCOREDUMP(rank.wait_status) ? ", core dumped" : "");
  }
  return describe_end(rank.wait_status) + (rank.end == End::own ? "" : " when told to end");
}

/// "  stopped because of it: ranks 0 and 1 (SIGTERM); rank 3 (...)": the ranks that `chosen` picks, by how they ended.
template <class Chosen>
std::string list_ranks(const char* title, const std::vector<RankRecord>& ranks, const SummaryFacts& facts,
                       Chosen chosen) {
  std::map<std::string, std::vector<int>> by_end;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (chosen(rank, ranks[i])) by_end[how_it_ended(ranks[i], facts)].push_back(rank);
  }
  std::string list;
  for (const auto& [end, numbers] : by_end) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : "; ", name_ranks(numbers), end);
  }
  return list.empty() ? list : fmt::format("  {}: {}\n", title, list);
}

/// "  waited for others: rank 0 in recv from rank 1 with tag 7; ranks 1-3 in barrier() #2; rank 4 in no call": nothing
/// where nobody did.
std::string list_waits(const std::vector<std::optional<std::string>>& calls) {
  std::vector<std::pair<std::string, std::vector<int>>> by_call;
  std::vector<int> elsewhere;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i]) continue;
    const int rank = static_cast<int>(i);
    if (calls[i]->empty()) {
      elsewhere.push_back(rank);
      continue;
    }
    const auto same =
        std::find_if(by_call.begin(), by_call.end(), [&](const auto& one) { return one.first == *calls[i]; });
    (same == by_call.end() ? by_call.emplace_back(*calls[i], std::vector<int>()) : *same).second.push_back(rank);
  }
  if (by_call.empty()) return {};
  std::string list;
  for (const auto& [call, callers] : by_call) {
    list += fmt::format("{}{} in {}", list.empty() ? "" : "; ", name_ranks(callers), call);
  }
  if (!elsewhere.empty()) list += fmt::format("; {} in no call, or not for a second", name_ranks(elsewhere));
  return fmt::format("  waited for others: {}\n", list);
}

/// The program's fault, or its permissions', by errno of exec; not want of memory, of processes or of open files.
int status_of_exec(int error) {
  if (error == ENOENT) return kNotFound;
  constexpr std::array kOfProgram = {EACCES, EPERM,   ENOEXEC, ENOTDIR, ELOOP, ENAMETOOLONG,
                                     EISDIR, ETXTBSY, ELIBBAD, EINVAL,  E2BIG};
  return std::find(kOfProgram.begin(), kOfProgram.end(), error) != kOfProgram.end() ? kNotExecutable : kLauncherError;
}

std::string describe_guardian_end(int wait_status) {
  return fmt::format("its guardian process {}{}", WIFSIGNALED(wait_status) ? "was " : "", describe_end(wait_status));
}

bool failed_alone(const RankRecord& rank) { return rank.end == End::own && exit_status_of(rank.wait_status) != 0; }

const char* what_may_be_wrong(int error) {
  if (error == ENOENT) return " (the program, or the interpreter that it names)";
  return error == ENOEXEC ? " (neither a program for this machine nor a script)" : "";
}

std::string oom_hint(const Outcome& outcome, const RankRecord& rank) {
  if (!WIFSIGNALED(rank.wait_status) || WTERMSIG(rank.wait_status) != SIGKILL) return {};
  const bool in_group = outcome.oom_after.group > outcome.oom_before.group;
  if (!in_group && outcome.oom_after.host <= outcome.oom_before.host) return {};
  return fmt::format("  hint: meanwhile the kernel's out-of-memory killer ended a process {}\n",
                     in_group ? "of this control group" : "on this host");
}

std::string first_failure(const Outcome& outcome, const std::vector<RankRecord>& ranks, const SummaryFacts& facts,
                          const std::deque<std::string>& last_lines) {
  const RankRecord& first = ranks[static_cast<std::size_t>(outcome.first_rank)];
  std::string text =
      fmt::format("rondo-run: rank {} failed first: {}\n  host {}, pid {}, program {}\n", outcome.first_rank,
                  describe_end(first.wait_status), facts.host, first.pid, facts.program);
  if (!outcome.reason.empty()) text += fmt::format("  its reason: {}\n", outcome.reason);
  text += oom_hint(outcome, first);
  if (last_lines.empty()) {
    text += "  it printed nothing on standard error\n";
  } else {
    text += fmt::format("  its last lines on standard error:\n");
    for (const std::string& line : last_lines) text += fmt::format("    | {}\n", line);
  }
  text += list_ranks("left without a goodbye before it", ranks, facts,
                     [&](int rank, const RankRecord&) { return rank == outcome.left_before; });
  text += list_ranks("failed after it", ranks, facts, [&](int rank, const RankRecord& record) {
    return rank != outcome.first_rank && failed_alone(record);
  });
  text += list_ranks("stopped because of it", ranks, facts, [&](int rank, const RankRecord& record) {
    return rank != outcome.first_rank && record.pid > 0 && record.end != End::own;
  });
  return text;
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i < 2) last = i;  // a run of two reads better as two
    runs.push_back(last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) text += i + 1 == runs.size() ? " and " : ", ";
    text += runs[i];
  }
  return text;
}

int exit_status(const Outcome& outcome, const std::vector<RankRecord>& ranks) {
  switch (outcome.kind) {
    case Outcome::Kind::succeeded: return 0;
    case Outcome::Kind::rank_failed:
      return exit_status_of(ranks[static_cast<std::size_t>(outcome.first_rank)].wait_status);
    case Outcome::Kind::not_run: return status_of_exec(outcome.error);
    case Outcome::Kind::timed_out: return kTimedOut;
    case Outcome::Kind::signalled: return 128 + outcome.signal;
    case Outcome::Kind::not_started:
    case Outcome::Kind::guardian_lost:
    case Outcome::Kind::output_failed: return kLauncherError;
  }
  return kLauncherError;
}

std::string summarize(const Outcome& outcome, const std::vector<RankRecord>& ranks, const SummaryFacts& facts,
                      const std::deque<std::string>& last_lines) {
  const auto list_stopped = [&] {
    return list_ranks("ended", ranks, facts, [](int, const RankRecord& record) {
      return record.pid > 0 && (record.end != End::own || failed_alone(record));
    });
  };
  std::string text;
  switch (outcome.kind) {
    case Outcome::Kind::succeeded: return {};
    case Outcome::Kind::rank_failed: text = first_failure(outcome, ranks, facts, last_lines); break;
    case Outcome::Kind::not_run:
      return fmt::format("rondo-run: cannot run {}: {}{}\n", facts.program, std::strerror(outcome.error),
                         what_may_be_wrong(outcome.error));
    case Outcome::Kind::not_started:
      return fmt::format("rondo-run: cannot start rank {} of {}: {}: {}\n", outcome.first_rank, ranks.size(),
                         outcome.reason, std::strerror(outcome.error));
    case Outcome::Kind::timed_out:
      return fmt::format("rondo-run: not done after the --timeout of {}\n{}{}", facts.timeout,
                         list_waits(outcome.waited), list_stopped());
    case Outcome::Kind::signalled:
      return fmt::format("rondo-run: stopped by {}\n{}{}", signal_name(outcome.signal), list_waits(outcome.waited),
                         list_stopped());
    case Outcome::Kind::guardian_lost:
      return fmt::format("rondo-run: {}, so the job was ended\n", describe_guardian_end(outcome.guardian_end));
    case Outcome::Kind::output_failed:
      return "rondo-run: it could not write what the ranks print, so the job was ended\n" + list_stopped();
  }
  if (facts.attempts > 1) text += fmt::format("  this was attempt {} of {}\n", facts.attempt + 1, facts.attempts);
  return text;
}

}  // namespace rondo::detail
