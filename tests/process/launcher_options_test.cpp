#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/process/launched.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

std::vector<std::string> sorted_lines(const std::string& text) {
  auto lines = lines_of(text);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("every spelling of the number of ranks works, and a program keeps its own words", "[process][launcher]") {
  for (const char* option : {"-n", "-np", "--np", "--nproc-per-node", "--nproc_per_node"}) {
    CHECK(sorted_lines(launch({option, "2", "echo", "-np", "7", "--", "-x"}).out) ==
          std::vector<std::string>{"[0] -np 7 -- -x", "[1] -np 7 -- -x"});
  }
  CHECK(launch({"-n3", "true"}).status == 0);
  CHECK(launch({"--np=3", "true"}).status == 0);
  CHECK(launch({"echo", "-n", "5"}).out == "[0] 5\n");  // echo's own -n, but for the last line's end
  CHECK(lines_of(launch({"-n", "64", "--", "echo", "many"}).out).size() == 64);
}

TEST_CASE("what mpirun's users type is accepted", "[process][launcher]") {
  const auto ended =
      launch({"--oversubscribe", "--allow-run-as-root", "-l", "--tag-output", "-np", "1", "echo", "yes"});
  CHECK(ended.out == "[0] yes\n");
  CHECK(ended.err.empty());
}

TEST_CASE("a command line that makes no sense is 125, and says what was wanted", "[process][launcher]") {
  struct Case {
    std::vector<std::string> words;
    const char* message;
  };
  const Case cases[] = {
      {{"-n", "0", "true"}, "option -n: got '0', wanted a number of ranks from 1"},
      {{"-n", "-1", "true"}, "option -n: got '-1'"},
      {{"-n", "abc", "true"}, "option -n: got 'abc', wanted a number of ranks"},
      {{"-n", "2x", "true"}, "option -n: got '2x'"},
      {{"-n", "", "true"}, "option -n: got '', wanted a number of ranks from 1 to 65536"},
      {{"--np=", "true"}, "option -n: got '', wanted a number of ranks"},
      {{"--timeout", "", "true"}, "option --timeout: got '', wanted a number of seconds above 0"},
      {{"--grace", "", "true"}, "option --grace: got '', wanted a number of seconds not below 0"},
      {{"--max-restarts", "", "true"}, "option --max-restarts: got '', wanted a number from 0"},
      {{"--output-dir", "", "true"}, "option --output-dir: got '', wanted a directory"},
      {{"--bind-to", "", "true"}, "option --bind-to: got '', wanted none or core"},
      {{"-n"}, "option -n: its value is missing"},
      {{"-np"}, "option -np: its value is missing"},
      {{"--no-prefix=", "true"}, "option --no-prefix: got a value, wanted none"},
      {{"-n", "2"}, "no program given"},
      {{}, "no program given"},
      {{
           "--",
       },
       "no program given"},
      {{"--no-such-option", "true"}, "unknown option --no-such-option"},
      {{"-q", "true"}, "unknown option -q"},
      {{"--timeout", "soon", "true"}, "option --timeout: got 'soon', wanted a number of seconds above 0"},
      {{"--timeout", "1e10", "true"}, "got '1e10', wanted a number of seconds above 0, at most 1000000000"},
      {{"--timeout", "0", "true"}, "option --timeout: got '0'"},
      {{"--timeout", "nan", "true"}, "option --timeout: got 'nan'"},
      {{"--grace", "-1", "true"}, "option --grace: got '-1'"},
      {{"--max-restarts", "some", "true"}, "option --max-restarts: got 'some'"},
      {{"--bind-to", "socket", "true"}, "option --bind-to: got 'socket', wanted none or core"},
      {{"-x", "=1", "true"}, "option -x: got '=1', wanted NAME or NAME=VALUE"},
      {{"-x", "RONDO_RANK=1", "true"}, "option -x: RONDO_RANK is what rondo-run itself sets"},
      {{"-x", "NO_SUCH_VARIABLE", "true"}, "option -x: NO_SUCH_VARIABLE is not set in the environment"},
  };
  for (const Case& each : cases) {
    const auto ended = launch(each.words);
    INFO(each.message);
    CHECK(ended.status == 125);
    CHECK_THAT(ended.err, StartsWith("rondo-run: ") && ContainsSubstring(each.message));
    CHECK(lines_of(ended.err).size() == 1);
    CHECK(ended.out.empty());
  }
}

TEST_CASE("--version and --help print to standard output", "[process][launcher]") {
  const auto version = launch({"--version"});
  CHECK(version.status == 0);
  CHECK_THAT(version.out, StartsWith("rondo-run " RONDO_VERSION " (transports: ") && ContainsSubstring("tcp"));
  Launched without_gpu({"--version"}, {"env", "RONDO_CUDA_LIBRARY=libno-such-driver.so.1"});
  CHECK_THAT(without_gpu.wait().out, ContainsSubstring("; cuda: not found: libno-such-driver.so.1: cannot open"));
  const auto help = launch({"--help"});
  CHECK(help.status == 0);
  for (const char* option : {"-n", "-x", "--no-prefix", "--output-dir", "--timeout", "--grace", "--max-restarts",
                             "--bind-to", "--report-bindings", "--dry-run", "--version"}) {
    CHECK_THAT(help.out, ContainsSubstring(option));
  }
}

TEST_CASE("ranks find who they are in rondo's and in torchrun's variables", "[process][launcher]") {
  const auto ended = launch({"-n", "3", "--no-prefix", "sh", "-c",
                             "echo $RONDO_RANK $RONDO_SIZE $RONDO_LOCAL_RANK $RONDO_LOCAL_SIZE $RONDO_ATTEMPT"
                             " $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR"
                             " $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS;"
                             "echo job $RONDO_JOB_ID $TORCHELASTIC_RUN_ID $MASTER_PORT"});
  auto lines = sorted_lines(ended.out);
  REQUIRE(lines.size() == 6);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string r = std::to_string(rank);
    CHECK(lines[static_cast<std::size_t>(rank)] == r + " 3 " + r + " 3 0 " + r + " 3 " + r + " 3 0 127.0.0.1 0 0");
  }
  CHECK(lines[3] == lines[5]);
  CHECK(lines[3].size() > std::string("job ").size() + 2 * 16);
}

TEST_CASE("a rank inherits its control connection and no other descriptor", "[process][launcher]") {
  std::string expected = "descriptors";
  for (int fd = 0; fd < 1024; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);  // what the test was given by its own parent goes through
    if (fd <= 2 || fd == 100 || (flags >= 0 && (flags & FD_CLOEXEC) == 0))
      expected.append(" ").append(std::to_string(fd));
  }
  const auto lines = lines_of(launch(actors(3, {"--no-prefix"}, {"descriptors"})).out);
  CHECK(lines == std::vector<std::string>(3, expected));
  CHECK(launch({"sh", "-c", "readlink /proc/self/fd/$RONDO_CONTROL_FD"}).out.starts_with("[0] socket:"));
}

TEST_CASE("-x sets variables, as given or as they are here", "[process][launcher]") {
  ::setenv("RONDO_TEST_EXPORTED", "from here", 1);
  const auto ended = launch({"-x", "A=b=c d", "-x", "RONDO_TEST_EXPORTED", "-x", "MASTER_PORT=7", "sh", "-c",
                             "echo \"$A|$RONDO_TEST_EXPORTED|$MASTER_PORT\""});
  ::unsetenv("RONDO_TEST_EXPORTED");
  CHECK(ended.out == "[0] b=c d|from here|7\n");
}

TEST_CASE("standard input goes to rank 0, the others have none", "[process][launcher]") {
  Launched launched({"-n", "2", "sh", "-c", "wc -c"});
  launched.type("12345");
  launched.end_input();
  CHECK(sorted_lines(launched.wait().out) == std::vector<std::string>{"[0] 5", "[1] 0"});
}

TEST_CASE("--dry-run prints what would be started, and starts nothing", "[process][launcher]") {
  const auto ended = launch({"-n", "2", "--dry-run", "-x", "A=it's", "--", "sh", "-c", "exit 9"});
  CHECK(ended.status == 0);
  const auto lines = lines_of(ended.out);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[1], StartsWith("[1] RONDO_RANK=1 RONDO_SIZE=2 "));
  CHECK_THAT(lines[1], ContainsSubstring(" WORLD_SIZE=2 ") && ContainsSubstring(" A='it'\\''s' "));
  CHECK_THAT(lines[1], ContainsSubstring("/sh -c 'exit 9'"));
}

TEST_CASE("--bind-to core gives each rank a core in turn, --report-bindings says which", "[process][launcher]") {
  cpu_set_t usable;
  REQUIRE(::sched_getaffinity(0, sizeof usable, &usable) == 0);
  const auto bound = launch({"-n", "2", "--bind-to", "core", "--report-bindings", "--no-prefix", "sh", "-c",
                             "grep Cpus_allowed_list /proc/self/status"});
  REQUIRE(bound.status == 0);
  CHECK_THAT(bound.err, ContainsSubstring("rondo-run: rank 0 is bound to cpu ") &&
                            ContainsSubstring("rondo-run: rank 1 is bound to cpu "));
  if (CPU_COUNT(&usable) == 2) {
    const auto lines = sorted_lines(bound.out);
    CHECK(lines.size() == 2);
  }
  CHECK_THAT(launch({"--report-bindings", "true"}).err, ContainsSubstring("rank 0 is not bound"));
}
