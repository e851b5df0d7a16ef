#include "tests/process/failure.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

// Real ranks under rondo-run, one of which fails: what the others hear of it, and how soon.

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr int kRanks = 4;
constexpr int kPair = 2;

std::vector<std::string> failing_ranks(const std::string& act, int victim, const std::string& fault,
                                       const std::string& transport, const std::vector<std::string>& options = {},
                                       int ranks = kRanks) {
  std::vector<std::string> words{"-n", std::to_string(ranks), "-x", "RONDO_TRANSPORT=" + transport};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", FAILING_RANK, act, std::to_string(victim), fault});
  return words;
}

/// Each in a job of its own, all jobs at the same time: they wait most of it.
std::vector<Failure> run_together(const std::vector<std::vector<std::string>>& jobs) {
  std::deque<Launched> launched;
  for (const auto& words : jobs) launched.emplace_back(words).end_input();
  std::vector<Failure> failures;
  for (Launched& job : launched) failures.push_back(failure_of(job.wait()));
  return failures;
}

/// All but the victim heard of it, in these words.
void check_survivors(const Failure& failure, int victim, const std::string& code, const std::string& text) {
  CHECK(failure.heard.size() == kRanks - 1);
  for (const Heard& heard : failure.heard) {
    INFO("rank " << heard.rank << " after " << heard.milliseconds << " ms: " << heard.text);
    CHECK(heard.rank != victim);
    CHECK_THAT(heard.text, ContainsSubstring(code + " peer " + std::to_string(victim) + ": "));
    CHECK_THAT(heard.text, ContainsSubstring(text));
  }
}

}  // namespace

TEST_CASE("a rank that is killed fails every other one at once, whatever they do", "[process][failure]") {
  const std::string transport = GENERATE("shm", "unix", "tcp");
  const std::string act = GENERATE("all_reduce-ring", "all_reduce-tree", "all_reduce-recursive_doubling",
                                   "all_reduce-automatic", "all_reduce-small", "broadcast-tree", "broadcast-chain",
                                   "barrier", "sendrecv", "send-recv", "any-source", "test", "overlap", "group");
  const int victim = act == "any-source" || act == "overlap" ? 0 : 1;
  INFO(act << " over " << transport);
  check_failure(failing_ranks(act, victim, "kill", transport), kSoonMilliseconds, [&](const Failure& failure) {
    check_survivors(failure, victim, "peer_failed", "rank " + std::to_string(victim) + " died: killed by SIGKILL");
    CHECK(failure.ended.status == 128 + SIGKILL);
    CHECK_THAT(failure.ended.err, ContainsSubstring("rank " + std::to_string(victim) + " failed first"));
  });
}

TEST_CASE("a rank that is killed or stopped amid long copies that two ranks share fails the other one",
          "[process][failure]") {
  const std::string act = GENERATE("send-recv-long", "sendrecv-long", "broadcast-fetched");
  const int victim = GENERATE(0, 1);
  INFO(act << " with rank " << victim);
  const std::string rank = "rank " + std::to_string(victim);
  check_failure(failing_ranks(act, victim, "kill", "shm", {}, kPair), kSoonMilliseconds, [&](const Failure& failure) {
    REQUIRE(failure.heard.size() == 1);
    CHECK_THAT(failure.heard[0].text, StartsWith("peer_failed") && ContainsSubstring(rank + " died: killed by"));
  });
  const std::vector<std::string> options{"-x", "RONDO_TIMEOUT=0.5", "--grace", "10"};
  const Failure failure = failure_of(launch(failing_ranks(act, victim, "halt", "shm", options, kPair)));
  const auto other = std::find_if(failure.heard.begin(), failure.heard.end(),
                                  [&](const Heard& heard) { return heard.rank != victim; });
  INFO(failure.ended.out << failure.ended.err);
  REQUIRE(other != failure.heard.end());
  CHECK_THAT(other->text, StartsWith("timed_out"));
}

TEST_CASE("who reads the memory of a rank that has died hears of that", "[process][failure]") {
  const Failure failure = failure_of(launch(failing_ranks("scatter-fetched", 0, "owner", "shm")));
  check_survivors(failure, 0, "peer_failed", "rank 0 died: killed by SIGKILL");
}

TEST_CASE("a rank that is killed while it combines for all fails every other one at once", "[process][failure]") {
  check_failure(failing_ranks("all_reduce-fatal", 2, "operator", "shm"), kSoonMilliseconds, [](const Failure& failure) {
    check_survivors(failure, 2, "peer_failed", "rank 2 died: killed by SIGKILL");
    CHECK(failure.ended.status == 128 + SIGKILL);
  });
}

TEST_CASE("a rank without a core keeps nobody from combining what it has laid out", "[process][failure]") {
  const std::string algorithm = GENERATE("automatic", "sliced");
  const long ranks = ::sysconf(_SC_NPROCESSORS_ONLN) + 2;  // claims are for ranks that share cores
  const auto ended = launch({"-n", std::to_string(ranks), "-x", "RONDO_TIMEOUT=10", "--", STALLED_RANK, algorithm});
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("[0] finished while rank " + std::to_string(ranks - 1) + " is stopped"));
}

TEST_CASE("who comes late to read the memory of a rank that has given up hears of that", "[process][failure]") {
  const std::string algorithm = GENERATE("fetched own", "direct mapped", "sliced mapped");
  const auto ended =
      launch({"-n", "2", "-x", "RONDO_TIMEOUT=20", "--", "sh", "-c", "exec " LATE_READER_RANK " " + algorithm});
  INFO(algorithm << "\n" << ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("[0] gave up: ") && ContainsSubstring("[1] heard: "));
}

TEST_CASE("who calls a rank that has no descriptor left hears of it, and so does that rank", "[process][failure]") {
  if (SANITIZED) return;  // a sanitizer needs descriptors of its own
  const std::string transport = GENERATE("shm", "unix", "tcp");
  const auto ended = launch({"-n", "2", "-x", "RONDO_TIMEOUT=20", "-x", "RONDO_TRANSPORT=" + transport, "--", "sh",
                             "-c", "ulimit -n 200; exec " FULL_RANK});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("[1] rondo: rank 1: ") && ContainsSubstring("could not reach rank 0"));
  CHECK_THAT(ended.out, ContainsSubstring("[0] rondo: rank 0: ") && !ContainsSubstring("timed_out"));
  CHECK_THAT(ended.err, ContainsSubstring("cannot take the connection of another rank: Too many open files"));
}

TEST_CASE("a rank that ends without a goodbye is named with how it ended", "[process][failure]") {
  std::string summary;
  const auto check = [&](const std::string& fault, const std::string& text, int status) {
    check_failure(failing_ranks("all_reduce-ring", 2, fault, "unix"), kSoonMilliseconds, [&](const Failure& failure) {
      check_survivors(failure, 2, "peer_failed", text);
      CHECK(failure.ended.status == status);
      summary = failure.ended.err;
    });
  };
  check("abort", "rank 2 died: killed by SIGABRT", 128 + SIGABRT);
  check("exit", "rank 2 died: exited with status 3", 3);
  check("quick-exit", "rank 2 died: exited with status 0", 1);
  CHECK_THAT(summary, ContainsSubstring("  left without a goodbye before it: rank 2 (exited with status 0)"));
}

TEST_CASE("a connection that ends between ranks that live fails all, and none is said to be dead",
          "[process][failure]") {
  const Failure failure = failure_of(launch(failing_ranks("all_reduce-ring", 1, "unmap", "tcp")));
  INFO(failure.ended.out << failure.ended.err);
  REQUIRE(failure.heard.size() == kRanks);
  for (const Heard& heard : failure.heard) CHECK_THAT(heard.text, ContainsSubstring(" lost its connection to rank "));
  CHECK_THAT(failure.ended.out,
             ContainsSubstring("rank 1 lost its connection to rank 0: the connection was given up (a "
                               "buffer to be sent to it was gone)") ||
                 ContainsSubstring("rank 0 lost its connection to rank 1: the connection was closed"));
}

TEST_CASE("a rank that throws ends the others, and the summary blames it", "[process][failure]") {
  const std::string act = GENERATE("all_reduce-tree", "sendrecv");
  check_failure(failing_ranks(act, 2, "throw", "unix"), kSoonMilliseconds, [](const Failure& failure) {
    check_survivors(failure, 2, "peer_failed", "rank 2 left by an exception");
    CHECK(failure.ended.status == 4);
    CHECK_THAT(failure.ended.err, ContainsSubstring("rank 2 failed first: exited with status 4"));
    CHECK_THAT(failure.ended.err, ContainsSubstring("    | a bug of the program"));
  });
}

TEST_CASE("a rank that leaves before a collective fails it on all others", "[process][failure]") {
  const std::string transport = GENERATE("shm", "unix", "tcp");
  const std::string act = GENERATE("all_reduce-ring", "broadcast-chain", "barrier");
  INFO(act << " over " << transport);
  check_failure(failing_ranks(act, 1, "leave", transport), kSoonMilliseconds, [](const Failure& failure) {
    REQUIRE(failure.heard.size() == kRanks - 1);
    for (const Heard& heard : failure.heard) {
      INFO("rank " << heard.rank << ": " << heard.text);
      CHECK_THAT(heard.text, ContainsSubstring("peer_failed"));
      // The second where it was offered a long message before it left.
      CHECK_THAT(heard.text, ContainsSubstring(": rank 1 has left: it said goodbye") ||
                                 ContainsSubstring(": rank 1 has destroyed the communicator"));
    }
  });
}

TEST_CASE("a rank that leaves out a call or calls in another order is an error on all, itself too",
          "[process][failure]") {
  const std::string transport = GENERATE("shm", "unix", "tcp");
  const std::string fault = GENERATE("skip", "order");
  INFO(fault << " over " << transport);
  const auto words = failing_ranks("all_reduce-barrier", 1, fault, transport);
  // After a second without progress the calls are compared.
  check_failure(words, 3 * kSoonMilliseconds, [](const Failure& failure) {
    REQUIRE(failure.heard.size() == kRanks);
    for (const Heard& heard : failure.heard) {
      INFO("rank " << heard.rank << ": " << heard.text);
      CHECK_THAT(heard.text, ContainsSubstring("collective_mismatch"));
      CHECK_THAT(heard.text, ContainsSubstring("all_reduce(float x 50000, sum"));
      CHECK_THAT(heard.text, ContainsSubstring("barrier"));
      CHECK_THAT(heard.text, ContainsSubstring("rank 1 called barrier"));
    }
  });
}

TEST_CASE("a rank that hangs ends the others at the deadline, which names it", "[process][failure]") {
  // Till then all have told the hub for whom they wait.
  const std::vector<std::string> options{"-x", "RONDO_TIMEOUT=3", "--grace", "30"};
  const std::string transport = GENERATE("shm", "unix");
  std::vector<std::vector<std::string>> jobs;
  for (const char* act : {"all_reduce-ring", "all_reduce-automatic", "test", "overlap"}) {
    jobs.push_back(failing_ranks(act, 1, "stop", transport, options));
  }
  for (const Failure& failure : run_together(jobs)) {
    INFO(transport << "\n" << failure.ended.out << failure.ended.err);
    REQUIRE(failure.heard.size() >= kRanks - 1);  // the launcher wakes it to end it
    for (const Heard& heard : failure.heard) {
      CHECK_THAT(heard.text, StartsWith("timed_out") && ContainsSubstring("; rank 1 has not come to it"));
    }
  }
}

TEST_CASE("at the deadline all hear who is absent, and where it waits instead", "[process][failure]") {
  std::vector<std::vector<std::string>> jobs;
  for (const char* transport : {"shm", "unix"}) {
    jobs.push_back(failing_ranks("beside-group", 2, "elsewhere", transport, {"-x", "RONDO_TIMEOUT=3"}));
  }
  for (const Failure& failure : run_together(jobs)) {
    INFO(failure.ended.out << failure.ended.err);
    REQUIRE(failure.heard.size() == kRanks);
    for (const Heard& heard : failure.heard) {
      CHECK_THAT(heard.text, StartsWith("timed_out"));
      if (heard.rank == 2) {
        CHECK_THAT(heard.text, ContainsSubstring("rank 2 gave up barrier("));
        CHECK_THAT(heard.text, ContainsSubstring("not come to it"));
      } else {
        CHECK_THAT(heard.text, ContainsSubstring("gave up all_reduce(float x 50000"));
        CHECK_THAT(heard.text, ContainsSubstring("; rank 2 has not come to it"));
        // Its own deadline may have come first.
        CHECK_THAT(heard.text,
                   ContainsSubstring("; rank 2 waits in barrier(") || ContainsSubstring("; rank 2 gave up barrier("));
        CHECK_THAT(heard.text, ContainsSubstring(" #1 of another communicator"));
      }
    }
  }
}

TEST_CASE("ranks that wait for each other say so, and rondo-run in which calls, whoever ends the job",
          "[process][failure]") {
  const bool by_hand = GENERATE(false, true);
  std::vector<std::string> options{"--grace", "0.2"};
  if (!by_hand) options.insert(options.end(), {"--timeout", "13"});
  Launched job(failing_ranks("crossed", -1, "none", by_hand ? "tcp" : "shm", options, 3));
  job.end_input();
  job.wait_for_error(
      "rondo: rank 0: recv from rank 1 with tag 7: waiting 10 s; rank 1 waits in recv from rank 0 with tag 8");
  job.wait_for_error(
      "rondo: rank 1: recv from rank 0 with tag 8: waiting 10 s; rank 0 waits in recv from rank 1 with tag 7");
  if (!by_hand) job.wait_for_error("; rank 0 has not come to it; rank 0 waits in recv from rank 1 with tag 7");
  if (by_hand) job.signal(SIGINT);
  const auto ended = job.wait();
  CHECK(ended.status == (by_hand ? 128 + SIGINT : 124));
  CHECK_THAT(ended.err, ContainsSubstring("  waited for others: rank 0 in recv from rank 1 with tag 7; rank 1 in recv "
                                          "from rank 0 with tag 8; rank 2 in barrier("));
}

TEST_CASE("at the deadline each neighbour of a rank that hangs names the rank that it waited for",
          "[process][failure]") {
  // What rank 1 does not take, does not send, and what in turn does not come from rank 2.
  using Wanted = std::map<int, std::string>;
  const Wanted in_parts{{0, "timed_out peer 1: rondo: rank 0: send: 200000 bytes to rank 1 with tag 0: "},
                        {2, "timed_out peer 1: rondo: rank 2: recv: from rank 1 with tag 0: "},
                        {3, "timed_out peer 2: rondo: rank 3: recv: from rank 2 with tag 0: "}};
  const Wanted at_once{{0, "timed_out peer 1: rondo: rank 0: sendrecv: 200000 bytes to rank 1 with tag 0: "},
                       {2, "timed_out peer 1: rondo: rank 2: sendrecv: from rank 1 with tag 0: "},
                       {3, "timed_out peer 2: rondo: rank 3: sendrecv: from rank 2 with tag 0: "}};
  std::vector<const Wanted*> wanted;
  std::vector<std::vector<std::string>> jobs;
  for (const char* act : {"sendrecv", "send-recv"}) {
    for (const char* transport : {"shm", "unix"}) {
      jobs.push_back(failing_ranks(act, 1, "stop", transport, {"-x", "RONDO_TIMEOUT=5", "--grace", "30"}));
      wanted.push_back(act == std::string("sendrecv") ? &at_once : &in_parts);
    }
  }
  const auto failures = run_together(jobs);
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const Failure& failure = failures[i];
    INFO(failure.ended.out << failure.ended.err);
    // What others hear later may be that somebody gave up and left.
    long first = std::numeric_limits<long>::max();
    for (const Heard& heard : failure.heard) first = std::min(first, heard.milliseconds);
    int named = 0;
    for (const Heard& heard : failure.heard) {
      // Rank 1 is woken to be ended, and may serve others then.
      if (heard.rank == 1 || !heard.text.starts_with("timed_out")) continue;
      CHECK_THAT(heard.text, StartsWith(wanted[i]->at(heard.rank)));
      named += heard.milliseconds == first ? 1 : 0;
    }
    CHECK(named >= 1);
  }
}

TEST_CASE("the summary names the rank that failed first, also where another ended before it", "[process][failure]") {
  const TemporaryDirectory directory;
  const std::string pipe = directory.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto ended = launch({"-n", "2", "sh", "-c",
                             "case $RONDO_RANK in 1) exec 9<" + pipe + ";; *) exec 9>" + pipe + ";; esac;" +
                                 "exec " FAILING_RANK " send-recv 1 overtaken"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 3);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 failed first: exited with status 3\n") &&
                            ContainsSubstring("its reason: rank 1 gave up barrier("));
}

TEST_CASE("a child that a rank forks may not call rondo, and disturbs nobody", "[process][failure]") {
  const std::string transport = GENERATE("shm", "unix", "tcp");
  const int victim = GENERATE(0, 3);
  const Failure failure = failure_of(launch(failing_ranks("overlap", victim, "fork", transport)));
  INFO(failure.ended.out << failure.ended.err);
  CHECK(failure.ended.status == 0);
  CHECK(failure.heard.empty());
  CHECK_THAT(failure.ended.out, ContainsSubstring("was forked after rondo::init"));
  CHECK_THAT(failure.ended.out, ContainsSubstring("[forked]"));
  CHECK_THAT(failure.ended.out, ContainsSubstring("ended with 0"));
}
