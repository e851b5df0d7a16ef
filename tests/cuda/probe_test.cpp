// Starts `rondo-bench probe --quick` as its users do. What it says is checked for being there, not for its figures.

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/probe/figure.hpp"
#include "bench/probe/item.hpp"
#include "bench/probe/optional_calls.hpp"
#include "cuda/device.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/lacks_kernels.hpp"
#include "tests/support/catch.hpp"
#include "transport/descriptor.hpp"

// RONDO_BENCH is the path of the benchmark.

using namespace rondo;
using namespace rondo::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

constexpr int kCannotRun = 77;

/// A probe under way; its orphans become children of this process.
class Probe {
 public:
  Probe(const std::string& options, const std::string& variables) {
    ::setenv("RONDO_CUDA_LIBRARY", STAND_IN, 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    output_ = detail::Descriptor(ends[0]);
    const detail::Descriptor their_end(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, their_end.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, their_end.get(), STDERR_FILENO);
    std::string command = variables + " exec " RONDO_BENCH " probe --quick " + options;
    std::string shell = "/bin/sh";
    std::string option = "-c";
    char* words[] = {shell.data(), option.data(), command.data(), nullptr};
    const int failed = ::posix_spawn(&process_, "/bin/sh", &actions, nullptr, &words[0], environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error("cannot start a shell");
  }

  std::string rest() const {
    std::string text;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(output_.get(), &part[0], sizeof(part))) > 0;)
      text.append(&part[0], static_cast<std::size_t>(got));
    return text;
  }
  pid_t process() const { return process_; }
  void kill() const { ::kill(process_, SIGKILL); }
  int wait() const {
    int status = 0;
    ::waitpid(process_, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t process_ = -1;
  detail::Descriptor output_;
};

/// The processes that a process has started, as it is now.
std::vector<pid_t> children(pid_t of = ::getpid()) {
  const std::string process = std::to_string(of);
  std::ifstream file("/proc/" + process + "/task/" + process + "/children");
  std::vector<pid_t> found;
  for (pid_t child = 0; file >> child;) found.push_back(child);
  return found;
}

std::string text_of(pid_t process, const char* file) {
  std::ostringstream text;
  text << std::ifstream("/proc/" + std::to_string(process) + "/" + file).rdbuf();
  return text.str();
}

/// Stops a process that answers an item, and is no copy of the probe any more; false where it is none, or has ended.
bool stop(pid_t process) {
  if (text_of(process, "cmdline").find("probe-part") == std::string::npos) return false;
  ::kill(process, SIGSTOP);
  for (;;) {
    const std::string stat = text_of(process, "stat");
    const std::size_t name_end = stat.rfind(") ");
    const char state = name_end == std::string::npos ? 'X' : stat[name_end + 2];
    if (state == 'T') return true;
    if (state == 'Z' || state == 'X') return false;
    std::this_thread::yield();
  }
}

struct Outcome {
  std::string output;
  int status = 0;
};

Outcome probe(const std::string& options, const std::string& variables = "") {
  const Probe started(options, variables);
  Outcome outcome;
  outcome.output = started.rest();
  outcome.status = started.wait();
  return outcome;
}

class ReportFile {
 public:
  ~ReportFile() { std::filesystem::remove(path); }
  nlohmann::json json() const { return nlohmann::json::parse(std::ifstream(path)); }

  const std::string path =
      (std::filesystem::temp_directory_path() / ("rondo-probe-" + std::to_string(::getpid()) + ".json")).string();
};

/// The numbers of ranks by which each item was answered.
std::map<std::string, std::set<int>> answered_by(const nlohmann::json& report) {
  std::map<std::string, std::set<int>> ranks;
  for (const auto& figure : report["figures"]) ranks[figure["item"]].insert(figure["ranks"].get<int>());
  return ranks;
}

std::string answer_to(const nlohmann::json& report, const std::string& what) {
  for (const auto& figure : report["figures"]) {
    if (figure["what"] == what) return figure.value("answer", "");
  }
  return "";
}

}  // namespace

TEST_CASE("a figure is the same at the other end", "[cuda][probe]") {
  const auto sent = bench::measured("a \"call\"", 4096, "us", {3, 1, 2});
  const auto got = bench::from_line(bench::to_line(sent));
  REQUIRE(got);
  CHECK(got->what == "a \"call\"");
  CHECK(got->bytes == 4096);
  CHECK(got->unit == "us");
  CHECK(got->median == 2);
  CHECK(got->min == 1);
  CHECK(got->max == 3);
  CHECK(got->samples == 3);
  CHECK(bench::from_line(bench::to_line(bench::answered("end", "hangs")))->answer == "hangs");
  for (const char* const words : {"", "cuX: got CUDA_ERROR", "{", "[1]", "{\"item\": 1}"}) {
    INFO(words);
    CHECK(!bench::from_line(words));
  }
}

TEST_CASE("the probe answers every item, in a table and a report, and leaves nothing behind", "[cuda][probe]") {
  if (lacks_kernels()) return;
  const std::string variables = GENERATE(as<std::string>(), "", "FAKECUDA_TIME_SLICE=1 FAKECUDA_SEED=3");
  const ReportFile file;
  const Outcome outcome = probe("--json " + file.path, variables);
  INFO(variables << "\n" << outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK(children().empty());

  const nlohmann::json report = file.json();
  CHECK(report["device"] == cuda::devices(driver_under_test()).at(0).name);
  CHECK(report["quick"] == true);
  const auto ranks = answered_by(report);
  CHECK(ranks.size() == bench::probe_items().size());
  for (const bench::Item& item : bench::probe_items()) {
    INFO(item.name);
    REQUIRE(ranks.contains(item.name));
    CHECK(ranks.at(item.name) == std::set<int>(item.ranks.begin(), item.ranks.end()));
    if (std::string(item.name) != "machine")
      CHECK_THAT(outcome.output, ContainsSubstring("\n" + std::string(item.name) + " "));
  }
  CHECK_THAT(outcome.output, ContainsSubstring("direct, unroll 4, ") && ContainsSubstring("leader, unroll 8, ") &&
                                 ContainsSubstring("ring step, a chunk of each rank, unroll 8, "));
  for (const auto& figure : report["figures"]) {
    INFO(figure);
    CHECK(!figure.contains("failed"));
    // Kernels that wait for each other cannot all have a device that one has until it ends.
    if (is_stand_in() && figure["item"] == "spinning") CHECK(figure.contains("unit") == variables.empty());
    if (!figure.contains("unit")) {
      CHECK(!figure["answer"].get<std::string>().empty());
      continue;
    }
    CHECK(figure["samples"].get<int>() > 0);
    CHECK(figure["min"].get<double>() > 0);
    CHECK(figure["min"].get<double>() <= figure["median"].get<double>());
    CHECK(figure["median"].get<double>() <= figure["max"].get<double>());
  }
}

TEST_CASE("what becomes of a process whose peer dies is said, a hang too", "[cuda][probe][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const ReportFile file;
  const Outcome outcome = probe(
      "--items death_event,death_exit,death_memory,death_kernel,free_mapped --json " + file.path, "FAKECUDA_STRICT=0");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = file.json();
  CHECK(answer_to(report, "the stream that waits for its event") == "hangs: not ready after 1 s");
  CHECK_THAT(answer_to(report, "another stream of the survivor"), ContainsSubstring("CUDA_SUCCESS (0) after"));
  CHECK_THAT(answer_to(report, "exit() while a stream waits for its event"), StartsWith("ends after"));
  CHECK_THAT(answer_to(report, "its memory, when it is dead"), ContainsSubstring("4096 of 4096 bytes are what"));
  CHECK_THAT(answer_to(report, "the survivor's next kernel"), ContainsSubstring("CUDA_SUCCESS (0) after"));
  CHECK(answer_to(report, "cuMemFree by the owner") == "CUDA_SUCCESS (0)");
  CHECK(answer_to(report, "how it ended").empty());

  // A strict driver ends the owner, which is an answer too.
  const Outcome strict = probe("--items free_mapped");
  CHECK(strict.status == 0);
  CHECK_THAT(strict.output, ContainsSubstring("the owner did not survive it"));
}

TEST_CASE("calls that wait for what is queued are told from others", "[cuda][probe][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const ReportFile file;
  const Outcome outcome = probe("--items beside_kernel --json " + file.path);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const nlohmann::json report = file.json();
  for (const auto& figure : report["figures"]) {
    if (figure["item"] == "beside_kernel") CHECK_THAT(figure["answer"].get<std::string>(), StartsWith("CUDA_SUCCESS"));
  }
  for (const char* const call :
       {"cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuMemcpyDtoHAsync behind it, not pinned"}) {
    CHECK_THAT(answer_to(report, call), EndsWith(", when the kernel had ended"));
  }
}

TEST_CASE("an item that fails is named with the reason, and the others are answered", "[cuda][probe][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const ReportFile file;
  const Outcome outcome =
      probe("--items host_calls,round_trip,death_kernel --json " + file.path, "FAKECUDA_FAIL=cuMemcpyDtoHAsync:1:700");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output,
             ContainsSubstring(
                 "FAILED: rank 0 ended with status 3: rondo-bench: cuMemcpyDtoHAsync_v2: got CUDA_ERROR_ILLEGAL"));
  CHECK(children().empty());
  const nlohmann::json report = file.json();
  const auto ranks = answered_by(report);
  CHECK(ranks.contains("host_calls"));
  CHECK(ranks.contains("death_kernel"));
  CHECK(!ranks.contains("copies"));
  for (const auto& figure : report["figures"]) {
    if (figure.contains("failed")) CHECK(figure["item"] == "round_trip");
  }
}

TEST_CASE("what the driver refuses of the optional calls is said, and the rest is measured",
          "[cuda][probe][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const std::string call = GENERATE("cuStreamWaitValue32", "cuMemHostRegister", "cuMemHostGetDevicePointer");
  const ReportFile file;
  const std::string late = GENERATE("", "FAKECUDA_SEED=3 ");  // what was queued before is done later
  const Outcome outcome = probe("--items wait_value --json " + file.path, late + "FAKECUDA_FAIL=" + call + ":1:801");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK(children().empty());
  const nlohmann::json report = file.json();
  const std::string of_device = answer_to(report, "cuStreamWaitValue32, the device's memory");
  const std::string of_host = answer_to(report, "cuStreamWaitValue32, the host's memory");
  const bool waiting = call == "cuStreamWaitValue32";
  CHECK_THAT(waiting ? of_device : of_host, ContainsSubstring(call + "_v2: got "));
  CHECK_THAT(waiting ? of_host : of_device, !ContainsSubstring("_v2: got "));
}

TEST_CASE("what the driver lacks of the optional calls is named", "[cuda][probe]") {
  CHECK_THAT(bench::OptionalCalls(NO_DRIVER).missing,
             ContainsSubstring("cuStreamWaitValue32_v2, ") && ContainsSubstring(", cuMemHostGetDevicePointer_v2"));
  if (is_stand_in()) CHECK(bench::OptionalCalls(STAND_IN).missing.empty());
}

TEST_CASE("a probe that is killed leaves no process behind", "[cuda][probe][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const Probe started("--items hand_over,reductions", "");
  // One of its processes is stopped, so that it does not end by itself.
  const auto stop_one = [&] {
    const auto found = children(started.process());
    return std::any_of(found.begin(), found.end(), stop);
  };
  while (!stop_one()) continue;
  started.kill();
  CHECK(started.wait() == 128 + SIGKILL);
  // What it had started is this process's now, and comes to its end.
  int killed = 0;
  for (int status = 0; ::waitpid(-1, &status, 0) > 0;) killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  CHECK(errno == ECHILD);
  CHECK(killed > 0);
}

TEST_CASE("where there is no driver the probe says why", "[cuda][probe]") {
  const Outcome outcome = probe("", "RONDO_CUDA_LIBRARY=libno-such-driver.so.1");
  CHECK(outcome.status == kCannotRun);
  CHECK_THAT(outcome.output, ContainsSubstring(has_kernels() ? "libno-such-driver.so.1: cannot open shared object file"
                                                             : "built without nvcc"));
}

TEST_CASE("the probe refuses what it does not know", "[cuda][probe]") {
  const Outcome outcome = probe("--items hand_over,nonsense");
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.output, ContainsSubstring("unknown item 'nonsense'; known: machine, hand_over"));
}
