#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tools/core_binding.hpp"
#include "tools/job_cgroup.hpp"
#include "tools/process.hpp"
#include "tools/rank_environment.hpp"
#include "tools/signals.hpp"
#include "tools/summary.hpp"

using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("ranks are named in runs", "[tools]") {
  CHECK(name_ranks({3}) == "rank 3");
  CHECK(name_ranks({0, 1}) == "ranks 0 and 1");
  CHECK(name_ranks({0, 1, 2, 3}) == "ranks 0-3");
  CHECK(name_ranks({0, 2, 3, 4, 9, 10}) == "ranks 0, 2-4, 9 and 10");
}

TEST_CASE("the kernel's count of out-of-memory kills is read from all three places", "[tools]") {
  CHECK(parse_oom_kills("low 0\noom 3\noom_kill 2\noom_group_kill 1\n") == 2);
  CHECK(parse_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n") == 5);
  CHECK(parse_oom_kills("nr_free_pages 12\noom_kill 7\n") == 7);
  CHECK(parse_oom_kills("nothing here\nmoom_kill 9\n") == 0);
  CHECK(parse_oom_kills("") == 0);
}

TEST_CASE("words are quoted for a shell only where they need it", "[tools]") {
  CHECK(shell_quoted("--file=a/b.c") == "--file=a/b.c");
  CHECK(shell_quoted("two words") == "'two words'");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("$HOME") == "'$HOME'");
}

TEST_CASE("a signal that comes while nobody waits for one is kept, whether it tells to stop or not", "[tools]") {
  sigset_t before;
  REQUIRE(::pthread_sigmask(SIG_SETMASK, nullptr, &before) == 0);
  {
    const Signals signals;
    CHECK(signals.next_to_stop() == 0);
    ::raise(SIGUSR1);
    ::raise(SIGTERM);
    CHECK(signals.next_to_stop() == SIGTERM);
    CHECK(signals.next_to_stop() == 0);
    CHECK(signals.next() == SIGUSR1);
    CHECK(signals.next() == 0);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_CASE("while signals are not heard, one that tells to stop ends the launcher", "[tools]") {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGTERM, SIG_DFL);  // not what the test's framework makes of it
    const Signals signals;
    ::raise(SIGTERM);
    if (signals.next_to_stop() != SIGTERM) ::_exit(1);
    const Signals::Unheard unheard(signals);
    ::raise(SIGTERM);
    ::_exit(2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(describe_end(status) == "killed by SIGTERM");
}

TEST_CASE("the end of a process is told by name", "[tools]") {
  constexpr int kCoreFlag = 0x80;
  CHECK(describe_end(3 << 8) == "exited with status 3");
  CHECK(describe_end(SIGKILL) == "killed by SIGKILL");
  CHECK(describe_end(SIGSEGV | kCoreFlag) == "killed by SIGSEGV (core dumped)");
  CHECK(exit_status_of(SIGSEGV | kCoreFlag) == 139);
  CHECK(exit_status_of(3 << 8) == 3);
}

TEST_CASE("a rank killed while the kernel was short of memory gets that hint", "[tools]") {
  std::vector<RankRecord> ranks(2);
  ranks[0] = {100, RankRecord::End::terminated, SIGTERM};
  ranks[1] = {101, RankRecord::End::own, SIGKILL};
  Outcome outcome;
  outcome.kind = Outcome::Kind::rank_failed;
  outcome.first_rank = 1;
  const SummaryFacts facts{.program = "./train", .host = "here", .timeout = "", .killed_after = "5 s"};
  CHECK(summarize(outcome, ranks, facts, {}).find("memory") == std::string::npos);
  outcome.oom_after.host = 1;
  CHECK_THAT(summarize(outcome, ranks, facts, {}),
             ContainsSubstring("out-of-memory killer ended a process on this host"));
  outcome.oom_after.group = 1;
  CHECK_THAT(summarize(outcome, ranks, facts, {}), ContainsSubstring("of this control group"));
  ranks[1].wait_status = 1 << 8;
  CHECK(summarize(outcome, ranks, facts, {}).find("memory") == std::string::npos);
}

TEST_CASE("what is no program is 126, what there is none of 127, what is for want of resources 125", "[tools]") {
  const SummaryFacts facts{.program = "./train", .host = "here", .timeout = "", .killed_after = ""};
  std::vector<RankRecord> ranks(16);
  Outcome outcome;
  outcome.kind = Outcome::Kind::not_run;
  outcome.first_rank = 7;
  const auto status = [&](int error) {
    outcome.error = error;
    return exit_status(outcome, ranks);
  };
  CHECK(status(ENOENT) == 127);
  for (const int error : {EACCES, EPERM, ENOEXEC, ENOTDIR, ELOOP}) CHECK(status(error) == 126);
  for (const int error : {EAGAIN, ENOMEM, EMFILE, ENFILE}) CHECK(status(error) == 125);
  outcome.kind = Outcome::Kind::not_started;
  outcome.reason = "cannot fork";
  CHECK(status(EAGAIN) == 125);
  CHECK(summarize(outcome, ranks, facts, {}) ==
        "rondo-run: cannot start rank 7 of 16: cannot fork: Resource temporarily unavailable\n");
}

TEST_CASE("a guardian that is lost is told by how it ended", "[tools]") {
  const SummaryFacts facts{.program = "./train", .host = "here", .timeout = "", .killed_after = ""};
  Outcome outcome;
  outcome.kind = Outcome::Kind::guardian_lost;
  outcome.guardian_end = SIGKILL;
  CHECK(summarize(outcome, {}, facts, {}) ==
        "rondo-run: its guardian process was killed by SIGKILL, so the job was ended\n");
  outcome.guardian_end = 125 << 8;
  CHECK(summarize(outcome, {}, facts, {}) ==
        "rondo-run: its guardian process exited with status 125, so the job was ended\n");
}

TEST_CASE("where ranks were is told of those that were there", "[tools]") {
  const SummaryFacts facts{.program = "./train", .host = "here", .timeout = "9 s", .killed_after = ""};
  const std::vector<RankRecord> ranks(5, {100, RankRecord::End::own, 0});
  Outcome outcome;
  outcome.kind = Outcome::Kind::timed_out;
  outcome.waited = {"barrier() #2", "", std::nullopt, "barrier() #2", "recv from rank 2"};
  CHECK(summarize(outcome, ranks, facts, {}) ==
        "rondo-run: not done after the --timeout of 9 s\n"
        "  waited for others: ranks 0 and 3 in barrier() #2; rank 4 in recv from rank 2; "
        "rank 1 in no call, or not for a second\n");
  outcome.waited = {"", std::nullopt};
  CHECK(summarize(outcome, ranks, facts, {}) == "rondo-run: not done after the --timeout of 9 s\n");
}

TEST_CASE("one end by a signal is told as another, whoever sent it", "[tools]") {
  const SummaryFacts facts{.program = "./train", .host = "here", .timeout = "", .killed_after = "5 s"};
  constexpr int kCoreFlag = 0x80;
  std::vector<RankRecord> ranks(4);
  ranks[0] = {100, RankRecord::End::own, SIGINT};
  ranks[1] = {101, RankRecord::End::terminated, SIGINT};
  ranks[2] = {102, RankRecord::End::own, SIGABRT | kCoreFlag};
  ranks[3] = {103, RankRecord::End::terminated, 3 << 8};
  Outcome outcome;
  outcome.kind = Outcome::Kind::signalled;
  outcome.signal = SIGINT;
  CHECK(summarize(outcome, ranks, facts, {}) ==
        "rondo-run: stopped by SIGINT\n"
        "  ended: rank 2 (SIGABRT, core dumped); ranks 0 and 1 (SIGINT); "
        "rank 3 (exited with status 3 when told to end)\n");
}

TEST_CASE("the summary tells apart who failed first, who after it, and who was stopped", "[tools]") {
  std::vector<RankRecord> ranks(5);
  ranks[0] = {100, RankRecord::End::terminated, SIGTERM};
  ranks[1] = {101, RankRecord::End::own, 3 << 8};
  ranks[2] = {102, RankRecord::End::own, 1 << 8};
  ranks[3] = {103, RankRecord::End::killed, SIGKILL};
  ranks[4] = {104, RankRecord::End::own, 0};
  Outcome outcome;
  outcome.kind = Outcome::Kind::rank_failed;
  outcome.first_rank = 1;
  outcome.reason = "out of range";
  const SummaryFacts facts{
      .program = "./train", .host = "here", .timeout = "", .killed_after = "5 s", .attempt = 0, .attempts = 2};
  CHECK(summarize(outcome, ranks, facts, {"one", "two"}) ==
        "rondo-run: rank 1 failed first: exited with status 3\n"
        "  host here, pid 101, program ./train\n"
        "  its reason: out of range\n"
        "  its last lines on standard error:\n"
        "    | one\n"
        "    | two\n"
        "  failed after it: rank 2 (exited with status 1)\n"
        "  stopped because of it: rank 3 (SIGKILL, 5 s after the first signal); rank 0 (SIGTERM)\n"
        "  this was attempt 1 of 2\n");
  CHECK(exit_status(outcome, ranks) == 3);
}
