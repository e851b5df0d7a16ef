#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skipped.hpp"

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Matches;

TEST_CASE("the exit status and the summary are those of the first rank that failed", "[process][launcher]") {
  const auto ended = launch(actors(4, {}, {"if", "2", "exit", "3"}));
  CHECK(ended.status == 3);
  CHECK_THAT(ended.err, ContainsSubstring("rank 2 failed first: exited with status 3\n"));
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  CHECK_THAT(ended.err, ContainsSubstring("host " + std::string(host.data()) + ", pid "));
  CHECK_THAT(ended.err, ContainsSubstring("    | about to exit\n    | with 3\n"));
  CHECK_THAT(ended.err, ContainsSubstring("stopped because of it: ranks 0, 1 and 3 (SIGTERM)\n"));
}

TEST_CASE("a crash is 128 + signal, by its name", "[process][launcher]") {
  const auto ended = launch(actors(3, {}, {"if", "1", "crash"}));
  CHECK(ended.status == 139);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 failed first: killed by SIGSEGV"));
  CHECK_THAT(ended.err, ContainsSubstring("it printed nothing on standard error"));
}

TEST_CASE("a rank that never called rondo did not fail for a reason that rondo knows", "[process][launcher]") {
  const TemporaryDirectory directory;
  const std::string fifo = directory.path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  // Rank 0 is gone when rank 1 reads the end of what it wrote.
  const auto ended =
      launch({"-n", "2", "sh", "-c",
              "if [ $RONDO_RANK = 0 ]; then exec true > " + fifo + "; else cat " + fifo + "; exit 7; fi"});
  CHECK(ended.status == 7);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 failed first: exited with status 7\n"));
  CHECK(ended.err.find("its reason") == std::string::npos);
  CHECK(ended.err.find("goodbye") == std::string::npos);
}

TEST_CASE("only the last lines of the failed rank are repeated", "[process][launcher]") {
  const auto ended = launch({"sh", "-c", "seq -f line%g 100 >&2; exit 1"});
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, ContainsSubstring("error:\n    | line81\n"));
  CHECK_THAT(ended.err, ContainsSubstring("    | line100\n"));
}

TEST_CASE("a rank that ignores SIGTERM is killed after the grace time", "[process][launcher]") {
  Launched launched(actors(2, {"--grace", "1"}, {"if", "0", "signals"}));
  const Watched stubborn(launched.number_after("ready 0 "));
  ::kill(launched.number_after("ready 1 "), SIGKILL);
  const auto ended = launched.wait();
  CHECK(ended.status == 128 + SIGKILL);
  CHECK(stubborn.gone_within(std::chrono::milliseconds(0)));
  CHECK_THAT(ended.out, ContainsSubstring("got 0 SIGTERM"));
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 failed first: killed by SIGKILL"));
  CHECK_THAT(ended.err, ContainsSubstring("stopped because of it: rank 0 (SIGKILL, "));
  CHECK(seconds_until_kill(ended.err) >= 1);
}

TEST_CASE("a stopped rank is ended too", "[process][launcher]") {
  Launched launched(actors(2, {"--grace", "30"}, {"pause"}));
  ::kill(launched.number_after("ready 0 "), SIGSTOP);
  ::kill(launched.number_after("ready 1 "), SIGKILL);
  const auto ended = launched.wait();
  CHECK(ended.status == 137);
  CHECK_THAT(ended.err, ContainsSubstring("rank 0 (SIGTERM)"));
}

TEST_CASE("--timeout ends the job with 124", "[process][launcher]") {
  const auto ended = launch(actors(2, {"--timeout", "0.2"}, {"pause"}));
  CHECK(ended.status == 124);
  CHECK_THAT(ended.err, ContainsSubstring("not done after the --timeout of 0.2 s"));
  CHECK_THAT(ended.err, ContainsSubstring("ranks 0 and 1 (SIGTERM)"));
  CHECK(launch({"--timeout", "60", "true"}).status == 0);
}

TEST_CASE("what cannot be run is 126 or 127", "[process][launcher]") {
  const TemporaryDirectory directory;
  const std::string script = directory.path() + "/script";
  const auto write_script = [&](const std::string& text, mode_t mode) {
    FILE* file = std::fopen(script.c_str(), "w");
    std::fputs(text.c_str(), file);
    std::fclose(file);
    ::chmod(script.c_str(), mode);
  };
  auto ended = launch({"no-such-program"});
  CHECK(ended.status == 127);
  CHECK_THAT(ended.err, ContainsSubstring("no-such-program: not found in PATH"));
  ended = launch({"-n", "3", "./no/such/program"});
  CHECK(ended.status == 127);
  CHECK_THAT(ended.err, ContainsSubstring("./no/such/program: no such file"));

  write_script("#!/bin/sh\n", 0644);
  ended = launch({script});
  CHECK(ended.status == 126);
  CHECK_THAT(ended.err, ContainsSubstring("not executable"));
  CHECK(launch({directory.path()}).status == 126);

  write_script("#!/no/such/interpreter\n", 0755);
  ended = launch({"-n", "2", "--max-restarts", "3", script});
  CHECK(ended.status == 127);
  CHECK_THAT(ended.err, ContainsSubstring("cannot run " + script + ": No such file or directory"));

  for (const char* garbage : {"\177ELF no program", "\177ELF\nno program\n"}) {
    write_script(garbage, 0755);
    ended = launch({"-n", "2", script});
    CHECK(ended.status == 126);
    CHECK_THAT(ended.err, ContainsSubstring("neither a program for this machine nor a script"));
  }
  write_script("echo without a first line\n", 0755);
  ended = launch({script});
  CHECK(ended.status == 0);
  CHECK(ended.out == "[0] without a first line\n");
}

TEST_CASE("too low a limit of open files is an error that says so", "[process][launcher]") {
  Launched launched({"-n", "2", "true"}, {"sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"});
  const auto ended = launched.wait();
  CHECK(ended.status == 125);
  CHECK(ended.err == "rondo-run: a process may have 100 files open (ulimit -Hn), wanted at least 128\n");
}

TEST_CASE("a rank that gets no pipe is not started, and that is said", "[process][launcher]") {
  const auto with_files = [](int limit) {
    return Launched({"-n", "20", "true"}, {"sh", "-c", "ulimit -n " + std::to_string(limit) + "; exec \"$@\"", "sh"})
        .wait();
  };
  // Enough for the launcher's ends of 20 ranks and for what it was started with, not for what starting a rank takes for
  // a moment.
  int limit = 200;
  auto ended = with_files(limit);
  while (ended.status == 0) ended = with_files(--limit);
  CHECK(ended.status == 125);
  CHECK_THAT(ended.err,
             Matches("rondo-run: cannot start rank [0-9]+ of 20: cannot make a pipe: Too many open files\n"));
}

TEST_CASE("a rank that gets no process is not started, and that is said", "[process][launcher]") {
  // A number of processes that is a user's own, and is none of root's.
  const std::vector<std::string> as_user{"setpriv", "--reuid", "12345", "--clear-groups", "prlimit", "--nproc=100"};
  Launched probe({"true"}, as_user);
  if (probe.wait().status != 0) return rondo::testing::skipped("no other user can be had here");
  Launched launched({"-n", "128", "sleep", "100"}, as_user);
  const auto ended = launched.wait();
  CHECK(ended.status == 125);
  CHECK_THAT(ended.err, Matches("rondo-run: cannot start rank [0-9]+ of 128: cannot fork: "
                                "Resource temporarily unavailable\n"));
}

TEST_CASE("--max-restarts starts all ranks again, with the number of the attempt", "[process][launcher]") {
  // Rank 1 fails when the others have said their line.
  const TemporaryDirectory directory;
  const std::string said = directory.path() + "/$RONDO_ATTEMPT.";
  const std::string script =
      "echo attempt $RONDO_ATTEMPT of $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS;"
      "[ $RONDO_ATTEMPT = 2 ] && exit; touch " +
      said +
      "$RONDO_RANK;"
      "if [ $RONDO_RANK = 1 ]; then until [ -e " +
      said + "0 ] && [ -e " + said +
      "2 ]; do :; done; fi;"
      "exec " RANK_ACTOR " if 1 exit 5";
  auto ended = launch({"-n", "3", "--max-restarts", "2", "sh", "-c", script});
  CHECK(ended.status == 0);
  for (const char* rank : {"0", "1", "2"}) {
    for (const char* attempt : {"0", "1", "2"}) {
      CHECK_THAT(ended.out,
                 ContainsSubstring(std::string("[") + rank + "] attempt " + attempt + " of " + attempt + "/2"));
    }
  }
  CHECK_THAT(ended.err, ContainsSubstring("this was attempt 2 of 3"));

  ended = launch({"-n", "3", "--max-restarts", "1", "sh", "-c", script});
  CHECK(ended.status == 5);
  CHECK_THAT(ended.err, ContainsSubstring("this was attempt 2 of 2"));
}
