#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skipped.hpp"
#include "tools/job_cgroup.hpp"

using namespace rondo::test;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// The control group that a launcher made for this rank; empty where it made none.
std::filesystem::path job_cgroup_of(pid_t rank) {
  const auto own = rondo::detail::JobCgroup("x").path().parent_path();
  std::ifstream lines("/proc/" + std::to_string(rank) + "/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.rfind("/rondo-");
    if (line.starts_with("0::") && at != std::string::npos) return own / line.substr(at + 1);
  }
  return {};
}

bool is_there(const std::filesystem::path& group) { return !group.empty() && std::filesystem::exists(group); }

pid_t parent_of(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::stoi(line.substr(5)));
  }
  return -1;
}

}  // namespace

TEST_CASE("a process of another session does not outlive the job", "[process][launcher]") {
  Launched launched(actors(2, {"--grace", "0.2"}, {"daemon", "0"}));
  // It keeps the rank's standard output open, so its number arrives whether or not it lives.
  launched.end_input();
  const pid_t daemon = launched.number_after("daemon 1 ");
  const auto ended = launched.wait();
  CHECK(ended.status == 0);
  CHECK(::kill(daemon, 0) != 0);
}

TEST_CASE("nor when a rank failed", "[process][launcher]") {
  Launched launched(actors(2, {"--grace", "0.2"}, {"daemon"}));
  const Watched daemon(launched.number_after("daemon 0 "));
  launched.wait_for_output("ready 0 ");
  ::kill(launched.number_after("ready 1 "), SIGKILL);
  const auto ended = launched.wait();
  CHECK(ended.status == 137);
  CHECK(daemon.gone_within(0ms));
}

TEST_CASE("nothing outlives a launcher that is killed", "[process][launcher]") {
  Launched launched(actors(3, {"--grace", "1000"}, {"daemon"}));  // it is not granted then
  const Watched rank(launched.number_after("ready 2 "));
  const Watched daemon(launched.number_after("daemon 0 "));
  const Watched other_daemon(launched.number_after("daemon 2 "));
  const pid_t third = launched.number_after("ready 1 ");
  const Watched guardian(parent_of(third));
  const auto group = job_cgroup_of(third);
  launched.signal(SIGKILL);
  CHECK(rank.gone_within(kDeadline));
  CHECK(daemon.gone_within(kDeadline));
  CHECK(other_daemon.gone_within(kDeadline));
  CHECK(guardian.gone_within(kDeadline));
  CHECK(launched.wait().status == 137);
  CHECK_FALSE(is_there(group));
}

TEST_CASE("nothing outlives a guardian that is killed", "[process][launcher]") {
  Launched launched(actors(2, {}, {"daemon"}));
  const pid_t pid = launched.number_after("ready 1 ");
  const auto group = job_cgroup_of(pid);
  const Watched rank(pid);
  const Watched daemon(launched.number_after("daemon 0 "));
  launched.wait_for_output("ready 0 ");
  const pid_t guardian = parent_of(pid);
  REQUIRE(guardian != launched.pid());
  ::kill(guardian, SIGKILL);
  const auto ended = launched.wait();
  CHECK(ended.status == 125);
  CHECK_THAT(ended.err, ContainsSubstring("guardian process was killed by SIGKILL, so the job was ended"));
  CHECK(rank.gone_within(0ms));
  CHECK(daemon.gone_within(0ms));
  CHECK_FALSE(is_there(group));
}

TEST_CASE("a guardian that is stopped does not keep ranks alive", "[process][launcher]") {
  Launched launched(actors(2, {}, {"daemon"}));
  const pid_t pid = launched.number_after("ready 1 ");
  const Watched rank(pid);
  const Watched daemon(launched.number_after("daemon 0 "));
  launched.wait_for_output("ready 0 ");
  const Watched guardian(parent_of(pid));
  ::kill(parent_of(pid), SIGSTOP);
  launched.signal(SIGTERM);
  const auto ended = launched.wait();
  CHECK(ended.status == 143);
  CHECK(ended.err == "rondo-run: stopped by SIGTERM\n  ended: ranks 0 and 1 (SIGTERM)\n");
  CHECK(guardian.gone_within(0ms));
  CHECK(rank.gone_within(0ms));
  CHECK(daemon.gone_within(0ms));
}

TEST_CASE("ranks do not even outlive both, launcher and guardian", "[process][launcher]") {
  Launched launched(actors(2, {}, {"pause"}));
  const Watched rank(launched.number_after("ready 0 "));
  const pid_t other = launched.number_after("ready 1 ");
  const Watched other_rank(other);
  const auto group = job_cgroup_of(other);
  launched.signal(SIGSTOP);
  ::kill(parent_of(other), SIGKILL);
  CHECK(rank.gone_within(kDeadline));
  CHECK(other_rank.gone_within(kDeadline));
  launched.signal(SIGKILL);
  CHECK(launched.wait().status == 137);
  // Nobody was left to remove the control group.
  if (!group.empty()) ::rmdir(group.c_str());
}

TEST_CASE("a launcher below a killed launcher takes its ranks with it", "[process][launcher]") {
  Launched launched({"--no-prefix", RONDO_RUN, "--grace", "1000", "-n", "2", RANK_ACTOR, "daemon"});
  const Watched rank(launched.number_after("ready 1 "));
  const Watched daemon(launched.number_after("daemon 0 "));
  launched.signal(SIGKILL);
  CHECK(rank.gone_within(kDeadline));
  CHECK(daemon.gone_within(kDeadline));
}

TEST_CASE("children that the launcher did not start are not its to kill", "[process][launcher]") {
  // The shell's child is the inner launcher's after exec. When its guardian dies, it kills its children; the outer
  // launcher then ends what is left, beginning with a SIGTERM that a killed process would not hear.
  Launched launched(
      {"--no-prefix", "sh", "-c", "RONDO_RANK=7 " RANK_ACTOR " polite & exec " RONDO_RUN " " RANK_ACTOR " pause"});
  const pid_t rank = launched.number_after("[0] ready 0 ");
  launched.wait_for_output("ready 7 ");
  ::kill(parent_of(rank), SIGKILL);
  const auto ended = launched.wait();
  CHECK(ended.status == 125);
  CHECK_THAT(ended.out, ContainsSubstring("got 7 SIGTERM"));
}

TEST_CASE("as process 1 of a container it ends like anywhere", "[process][launcher]") {
  Launched probe({"true"}, {"unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc"});
  if (probe.wait().status != 0) return rondo::testing::skipped("no namespace of processes can be had here");
  Launched launched(actors(2, {"--grace", "0.2"}, {"daemon", "4"}),
                    {"unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc"});
  CHECK(launched.wait().status == 4);
}

TEST_CASE("the job's control group is removed with all that ranks made inside", "[process][launcher]") {
  rondo::detail::JobCgroup group("rondo-test-" + std::to_string(::getpid()));
  group.create();
  if (!std::filesystem::exists(group.path() / "cgroup.kill"))
    return rondo::testing::skipped("no control group can be made here");
  const pid_t child = ::fork();
  if (child == 0) {
    group.enter();
    std::error_code none;
    std::filesystem::create_directory(group.path() / "inner", none);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  REQUIRE(WIFSTOPPED(status));
  REQUIRE(std::filesystem::exists(group.path() / "inner"));
  group.kill();
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  group.remove();
  CHECK_FALSE(std::filesystem::exists(group.path()));
}
