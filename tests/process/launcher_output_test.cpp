#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The most memory that a process has had, in KiB.
long peak_memory(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
  }
  return -1;
}

}  // namespace

TEST_CASE("100000 lines from 4 ranks come out whole and in each rank's order", "[process][launcher]") {
  constexpr int kRanks = 4, kLines = 25000;
  const auto ended = launch(actors(kRanks, {}, {"lines", std::to_string(kLines)}));
  REQUIRE(ended.status == 0);
  CHECK(ended.err.empty());
  std::array<int, kRanks> next{};
  for (const std::string& line : lines_of(ended.out)) {
    const auto rank = static_cast<std::size_t>(line.size() > 1 ? line[1] - '0' : -1);
    REQUIRE(rank < kRanks);
    const int i = next[rank]++;
    const std::string number = std::to_string(rank);
    REQUIRE(line == "[" + number + "] rank " + number + " line " + std::to_string(i) +
                        std::string(static_cast<std::size_t>(i % 60), '.') + "end");
  }
  for (const int lines : next) CHECK(lines == kLines);
}

TEST_CASE("both streams keep apart, and a last line without an end gets one", "[process][launcher]") {
  const auto ended = launch({"-n", "2", "sh", "-c", "echo out; echo err >&2; printf 'part '; printf last"});
  REQUIRE(ended.status == 0);
  for (const char* rank : {"[0] ", "[1] "}) {
    CHECK_THAT(ended.out, ContainsSubstring(rank + std::string("out\n")));
    CHECK_THAT(ended.out, ContainsSubstring(rank + std::string("part last\n")));
    CHECK_THAT(ended.err, ContainsSubstring(rank + std::string("err\n")));
  }
  CHECK(lines_of(ended.out).size() == 4);
  CHECK(lines_of(ended.err).size() == 2);
}

TEST_CASE("--no-prefix passes one rank's bytes as they are", "[process][launcher]") {
  CHECK(launch({"--no-prefix", "printf", R"(a\000b\r\n\nlast)"}).out == std::string("a\0b\r\n\nlast", 10));
}

TEST_CASE("--no-prefix never glues one rank's line to another's", "[process][launcher]") {
  const auto ended = launch({"-n", "3", "--no-prefix", "sh", "-c", "printf x$RANK"});
  auto lines = lines_of(ended.out);
  std::sort(lines.begin(), lines.end());
  CHECK(lines == std::vector<std::string>{"x0", "x1", "x2"});
}

TEST_CASE("a line longer than any buffer loses nothing", "[process][launcher]") {
  const auto ended = launch({"--no-prefix", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' y; echo"});
  CHECK(ended.out == std::string(3000000, 'y') + "\n");
}

TEST_CASE("--output-dir keeps each rank's lines in a file, without prefixes", "[process][launcher]") {
  const TemporaryDirectory directory;
  const std::string below = directory.path() + "/new/logs";
  const auto ended = launch({"-n", "2", "--output-dir", below, "sh", "-c", "echo out $RANK; echo err $RANK >&2"});
  REQUIRE(ended.status == 0);
  for (const std::string rank : {"0", "1"}) {
    const std::string text = file_text(below + "/rank-" + rank + ".log");
    CHECK_THAT(text, ContainsSubstring("out " + rank + "\n"));
    CHECK_THAT(text, ContainsSubstring("err " + rank + "\n"));
    CHECK(lines_of(text).size() == 2);
    CHECK_THAT(ended.out, ContainsSubstring("[" + rank + "] out " + rank + "\n"));
  }
  CHECK(launch({"--output-dir", "/proc/nowhere", "true"}).status == 125);
}

TEST_CASE("a slow reader holds up the ranks, not the launcher's memory", "[process][launcher]") {
  constexpr long kMegabytes = 64, kTakenAtMost = 8 << 20;
  Launched quiet(actors(1, {"--no-prefix"}, {"pause"}));
  quiet.wait_for_output("ready");
  const long of_itself = peak_memory(quiet.pid());
  quiet.signal(SIGTERM);
  quiet.wait();
  Launched launched(actors(1, {"--no-prefix"}, {"fill", std::to_string(kMegabytes)}));
  // Not a byte of standard output is read until the rank is blocked.
  const std::string& said = launched.wait_for_error("blocked after ");
  launched.wait_for_error("\n");
  const long taken = std::stol(said.substr(said.find("after ") + 6));
  CHECK(taken > 0);
  CHECK(taken < kTakenAtMost);
  CHECK(peak_memory(launched.pid()) - of_itself < (2 * kTakenAtMost) >> 10);
  const auto ended = launched.wait();
  CHECK(ended.status == 0);
  CHECK(ended.out.size() == static_cast<std::size_t>(kMegabytes << 20));
}

TEST_CASE("a reader that reads nothing cannot hold up --timeout or Ctrl-C for ever", "[process][launcher]") {
  // The rank leaves more than the pipe takes, and ends.
  const auto words = [](std::vector<std::string> options) {
    options.insert(options.end(), {"--no-prefix", "sh", "-c", "seq 100000; exec " RANK_ACTOR " exit 0"});
    return options;
  };
  Launched timed(words({"--timeout", "0.5"}));
  CHECK(timed.ends_by_itself());
  CHECK(timed.wait().status == 124);

  Launched interrupted(words({"--grace", "0.2"}));
  interrupted.wait_for_error("about to exit\nwith 0\n");
  interrupted.signal(SIGTERM);
  CHECK(interrupted.ends_by_itself());
}

TEST_CASE("ranks whose reader is gone get SIGPIPE, as without a launcher", "[process][launcher]") {
  Launched launched({"-n", "2", "yes"});
  launched.wait_for_output("] y\n");
  launched.close_output();
  CHECK(launched.wait().status == 128 + SIGPIPE);
}

TEST_CASE("nor does the launcher end otherwise where what it says itself has no reader either", "[process][launcher]") {
  const auto ended =
      launch({"--no-prefix", "sh", "-c", "{ { " RONDO_RUN " -n 2 yes 2>&1; echo $? >&3; } | head -1 >&2; } 3>&1"});
  CHECK(ended.out == std::to_string(128 + SIGPIPE) + "\n");
}

TEST_CASE("a full disk is an error of the launcher, and said", "[process][launcher]") {
  if (::access("/dev/full", W_OK) != 0) return;
  const auto ended = launch({"sh", "-c", "exec " RONDO_RUN " echo hello > /dev/full"});
  CHECK(ended.status == 125);
  CHECK_THAT(ended.err, ContainsSubstring("standard output: No space left on device"));
}

TEST_CASE("a plan that cannot be written is an error, and said", "[process][launcher]") {
  if (::access("/dev/full", W_OK) != 0) return;
  const auto ended = launch({"sh", "-c", "exec " RONDO_RUN " --dry-run -n 1 true > /dev/full"});
  CHECK(ended.status == 125);
  CHECK_THAT(ended.err, ContainsSubstring("rondo-run: cannot write to standard output: No space left on device"));
}

TEST_CASE("ranks that end because of the launcher's full disk are not blamed", "[process][launcher]") {
  if (::access("/dev/full", W_OK) != 0) return;
  const auto ended = launch({"sh", "-c", "exec " RONDO_RUN " -n 2 yes > /dev/full"});
  CHECK(ended.status == 125);
  CHECK_THAT(ended.err, ContainsSubstring("standard output: No space left on device"));
  CHECK_THAT(ended.err, ContainsSubstring("it could not write what the ranks print"));
}

TEST_CASE("closed standard descriptors do no harm", "[process][launcher]") {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/seen";
  const auto ended = launch(
      {"--no-prefix", "sh", "-c", RONDO_RUN " sh -c 'echo lost; echo kept > " + file + "' <&- >&- 2>&-; echo $?"});
  CHECK(ended.out == "0\n");
  CHECK(file_text(file) == "kept\n");
}
