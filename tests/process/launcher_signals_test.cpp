#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// rondo-run as a user has it: at a terminal.
class AtTerminal {
 public:
  explicit AtTerminal(const std::string& command) {
    int terminal = -1;
    pid_ = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      ::setenv("TERM", "xterm", 1);
      ::unsetenv("NO_COLOR");
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    terminal_ = rondo::detail::Descriptor(terminal);
  }
  ~AtTerminal() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  void type(const std::string& text) const {
    if (::write(terminal_.get(), text.data(), text.size()) < 0) throw std::runtime_error("cannot type");
  }
  /// False at the terminal's end.
  bool see(const std::string& wanted) {
    while (seen_.find(wanted) == std::string::npos) {
      pollfd ready{terminal_.get(), POLLIN, 0};
      constexpr int kMilliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(kDeadline).count();
      if (::poll(&ready, 1, kMilliseconds) == 0) throw std::runtime_error("'" + wanted + "' never came:\n" + seen_);
      std::array<char, 4096> buffer;
      const ssize_t got = ::read(terminal_.get(), buffer.data(), buffer.size());
      if (got <= 0) return false;
      seen_.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return true;
  }
  int wait() {
    see("\1");  // never comes: reads to the end
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& seen() const { return seen_; }

 private:
  pid_t pid_ = -1;
  rondo::detail::Descriptor terminal_;
  std::string seen_;
};

constexpr auto kInterrupted =
    "rondo-run: interrupted; waiting for the ranks to end (press Ctrl-C again to kill them)\n";

}  // namespace

TEST_CASE("Ctrl-C is forwarded, a second one kills", "[process][launcher]") {
  Launched launched(actors(2, {"--grace", "100"}, {"signals"}));
  launched.wait_for_output("ready 0 ");
  launched.wait_for_output("ready 1 ");
  launched.signal(SIGINT);
  launched.wait_for_output("got 0 SIGINT");
  launched.wait_for_output("got 1 SIGINT");
  launched.signal(SIGINT);
  const auto ended = launched.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.err, ContainsSubstring("stopped by SIGINT"));
  CHECK(seconds_until_kill(ended.err) < 100);
}

TEST_CASE("a job that goes on after Ctrl-C ends as it ends", "[process][launcher]") {
  Launched launched(actors(2, {"--grace", "100"}, {"signals"}));
  launched.wait_for_output("ready 0 ");
  launched.wait_for_output("ready 1 ");
  launched.signal(SIGINT);
  launched.wait_for_output("got 0 SIGINT");
  launched.wait_for_output("got 1 SIGINT");
  launched.signal(SIGUSR1);
  launched.wait_for_output("got 0 SIGUSR1");
  launched.wait_for_output("got 1 SIGUSR1");
  launched.signal(SIGUSR2);
  const auto ended = launched.wait();
  CHECK(ended.status == 0);
  CHECK(ended.err == kInterrupted);
}

TEST_CASE("ranks that ignore Ctrl-C get SIGTERM after the grace time, and SIGKILL after another",
          "[process][launcher]") {
  Launched deaf(actors(2, {"--grace", "1"}, {"signals"}));
  deaf.wait_for_output("ready 0 ");
  deaf.wait_for_output("ready 1 ");
  deaf.signal(SIGINT);
  const auto ended = deaf.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.out, ContainsSubstring("got 0 SIGINT\n") && ContainsSubstring("got 0 SIGTERM\n"));
  CHECK_THAT(ended.err,
             StartsWith(kInterrupted) && ContainsSubstring("stopped by SIGINT\n  ended: ranks 0 and 1 (SIG"));
  CHECK(seconds_until_kill(ended.err) >= 2);

  Launched polite(actors(2, {"--grace", "2"}, {"polite"}));
  polite.wait_for_output("ready 0 ");
  polite.wait_for_output("ready 1 ");
  polite.signal(SIGINT);
  const auto well = polite.wait();
  CAPTURE(well.out, well.err);
  CHECK(well.status == 0);
}

TEST_CASE("Ctrl-C ends ranks that do not mind it with 130", "[process][launcher]") {
  Launched launched(actors(2, {}, {"pause"}));
  launched.wait_for_output("ready 0 ");
  launched.wait_for_output("ready 1 ");
  launched.signal(SIGINT);
  const auto ended = launched.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.err, ContainsSubstring("stopped by SIGINT"));
}

TEST_CASE("who is told to stop starts no rank again", "[process][launcher]") {
  SECTION("ranks that mind Ctrl-C leave with a status of their own") {
    Launched launched({"-n", "2", "--max-restarts", "3", "sh", "-c",
                       "trap 'exit 3' INT; echo ready $RANK; while :; do sleep 0.01; done"});
    launched.wait_for_output("ready 0");
    launched.wait_for_output("ready 1");
    launched.signal(SIGINT);
    const auto ended = launched.wait();
    CHECK(ended.status == 130);
    CHECK_THAT(ended.err, ContainsSubstring("stopped by SIGINT\n") && ContainsSubstring("(exited with status 3)"));
    CHECK(ended.err.find("start again") == std::string::npos);
  }
  SECTION("a rank has failed, the other is being ended") {
    for (const int signal : {SIGINT, SIGTERM}) {
      Launched launched(actors(2, {"--grace", "60", "--max-restarts", "3"}, {"if", "0", "signals"}));
      const pid_t deaf = launched.number_after("ready 0 ");
      ::kill(launched.number_after("ready 1 "), SIGKILL);
      launched.wait_for_output("got 0 SIGTERM");
      launched.signal(signal);
      if (signal == SIGTERM) ::kill(deaf, SIGUSR2);
      const auto ended = launched.wait();
      CHECK(ended.status == 128 + signal);
      CHECK_THAT(ended.err, ContainsSubstring("rank 1 failed first: killed by SIGKILL\n") &&
                                ContainsSubstring(", so the ranks do not start again\n"));
    }
  }
  SECTION("one attempt follows the other") {
    Launched launched({"--max-restarts", "1000000", "sh", "-c", "echo attempt $RONDO_ATTEMPT; exit 3"});
    launched.wait_for_output("attempt 3");
    launched.signal(SIGTERM);
    const auto ended = launched.wait();
    CHECK(ended.status == 143);
  }
}

TEST_CASE("SIGTERM ends the job: well where ranks end well, else with 143", "[process][launcher]") {
  Launched polite(actors(2, {}, {"polite"}));
  polite.wait_for_output("ready 0 ");
  polite.wait_for_output("ready 1 ");
  polite.signal(SIGTERM);
  CHECK(polite.wait().status == 0);

  Launched deaf(actors(2, {"--grace", "0.1"}, {"signals"}));
  deaf.wait_for_output("ready 0 ");
  deaf.wait_for_output("ready 1 ");
  deaf.signal(SIGTERM);
  const auto ended = deaf.wait();
  CHECK(ended.status == 143);
  CHECK_THAT(ended.err, ContainsSubstring("stopped by SIGTERM"));
}

TEST_CASE("a second SIGTERM kills", "[process][launcher]") {
  Launched launched(actors(1, {"--grace", "100"}, {"signals"}));
  launched.wait_for_output("ready 0 ");
  launched.signal(SIGTERM);
  launched.wait_for_output("got 0 SIGTERM");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // sooner it would count as the same
  launched.signal(SIGTERM);
  const auto ended = launched.wait();
  CHECK(ended.status == 143);
  CHECK(seconds_until_kill(ended.err) < 100);
}

TEST_CASE("Ctrl-Z stops the job, and it goes on when the launcher does", "[process][launcher]") {
  Launched launched(actors(1, {}, {"signals"}));
  launched.wait_for_output("ready 0 ");
  launched.signal(SIGTSTP);
  int status = 0;
  REQUIRE(::waitpid(launched.pid(), &status, WUNTRACED) == launched.pid());
  REQUIRE(WIFSTOPPED(status));
  launched.signal(SIGUSR1);
  launched.signal(SIGCONT);
  launched.wait_for_output("got 0 SIGUSR1");
  launched.signal(SIGUSR2);
  CHECK(launched.wait().status == 0);
}

TEST_CASE("a hang-up that nohup wants ignored is ignored", "[process][launcher]") {
  Launched launched(actors(1, {}, {"signals"}), {"sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""});
  launched.wait_for_output("ready 0 ");
  launched.signal(SIGHUP);
  launched.signal(SIGUSR1);
  const std::string seen = launched.wait_for_output("got 0 SIGUSR1");
  CHECK(seen.find("SIGHUP") == std::string::npos);
  launched.signal(SIGUSR2);
  CHECK(launched.wait().status == 0);
}

TEST_CASE("at a terminal prefixes are coloured and rank 0 reads what is typed", "[process][launcher]") {
  AtTerminal terminal(RONDO_RUN " -n 2 sh -c 'read line; echo $RANK has: $line'");
  terminal.type("hello\n");
  CHECK(terminal.wait() == 0);
  CHECK_THAT(terminal.seen(), ContainsSubstring("\033[31m[0]\033[0m 0 has: hello"));
  CHECK_THAT(terminal.seen(), ContainsSubstring("\033[32m[1]\033[0m 1 has:\r\n"));
}

TEST_CASE("at a terminal Ctrl-D ends the input, and Ctrl-C reaches the ranks once", "[process][launcher]") {
  AtTerminal reader(RONDO_RUN " sh -c 'cat; echo over'");
  reader.type("typed\n\4");
  CHECK(reader.see("over"));
  CHECK(reader.wait() == 0);

  AtTerminal terminal("exec " RONDO_RUN " -n 2 " RANK_ACTOR " signals");
  terminal.see("ready 0 ");
  terminal.see("ready 1 ");
  terminal.type("\3");
  terminal.see("got 0 SIGINT");
  terminal.see("got 1 SIGINT");
  terminal.type("\3");
  CHECK(terminal.wait() == 130);
  CHECK(terminal.seen().find("got 0 SIGINT") == terminal.seen().rfind("got 0 SIGINT"));
}

TEST_CASE("in the background it leaves the terminal's input alone, and is not stopped", "[process][launcher]") {
  AtTerminal terminal("set -m; " RONDO_RUN " " RANK_ACTOR
                      " signals & wait $!; echo status $?; read line; echo kept $line");
  terminal.see("ready 0 ");
  terminal.see("\n");
  terminal.type("typed\n");
  const std::string& seen = terminal.seen();
  ::kill(std::stoi(seen.substr(seen.find("ready 0 ") + 8)), SIGUSR2);
  CHECK(terminal.see("status 0"));
  CHECK(terminal.see("kept typed"));
  CHECK(terminal.wait() == 0);
}
