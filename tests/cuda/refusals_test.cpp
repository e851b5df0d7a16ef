#include <csignal>
#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "cuda/driver.hpp"
#include "tests/cuda/device_ranks.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/lacks_kernels.hpp"

// What goes wrong with messages and collectives between processes under rondo-run: whatever the driver refuses,
// contexts that are lost, ranks of groups, time that is up.

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::is_stand_in;
using rondo::testing::lacks_kernels;

namespace {

/// Of a job in which the driver refuses a call.
struct Refusal {
  std::string program, act;
  int ranks, code;
  std::vector<std::string> variables;
  std::string whom = "$RONDO_RANK = 1";  ///< for a shell: whose call
};

/// What could not be given up is left on purpose.
const std::vector<std::string> kUntidy{"FAKECUDA_STRICT=0", "ASAN_OPTIONS=detect_leaks=0"};

std::vector<std::string> words_of(const Refusal& refusal, const std::string& call, int nth) {
  std::vector<std::string> variables = refusal.variables;
  variables.insert(variables.end(), kUntidy.begin(), kUntidy.end());
  const std::string failing = fmt::format("FAKECUDA_FAIL={}:{}:{}", call, nth, refusal.code);
  const std::string shell =
      fmt::format("if [ {} ]; then export {}; fi; exec {} {}", refusal.whom, failing, refusal.program, refusal.act);
  return words_for(refusal.ranks, {"/bin/sh", "-c", shell}, variables);
}

/// Each of these calls fails the nth time, in a job of its own: some at a time.
void check_refusals(const Refusal& refusal, const std::vector<std::string>& calls, const std::vector<int>& times) {
  if (!is_stand_in()) return;
  for (const std::string& call : calls) {
    std::deque<Launched> jobs;
    for (const int nth : times) jobs.emplace_back(words_of(refusal, call, nth));
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto ended = jobs[i].wait();
      INFO(refusal.act << ": " << call << " " << times[i] << ": " << ended.out << ended.err);
      CHECK(ended.status == 0);
    }
  }
}

/// The calls that move something, or make it ready, fail on rank 1.
void check_refusals(const Refusal& refusal) {
  // Under a sanitizer a job takes a second.
  const std::vector<int> times = SANITIZED ? std::vector{2} : std::vector{1, 2, 3, 5, 8};
  check_refusals(refusal,
                 {"cuCtxPushCurrent", "cuDeviceCanAccessPeer", "cuEventCreate", "cuEventQuery", "cuEventRecord",
                  "cuIpcGetMemHandle", "cuIpcOpenEventHandle", "cuIpcOpenMemHandle", "cuLaunchKernel", "cuMemAlloc",
                  "cuMemHostAlloc", "cuMemHostRegister", "cuMemcpy2DAsync", "cuMemcpyDtoDAsync", "cuMemcpyDtoHAsync",
                  "cuMemcpyHtoDAsync", "cuPointerGetAttributes", "cuStreamIsCapturing", "cuStreamWaitEvent"},
                 times);
}

}  // namespace

TEST_CASE("whatever the driver refuses is an error, and nobody hangs", "[cuda][refusals][stand-in]") {
  rondo::cuda::Driver driver;
  std::vector<std::string> calls;
  driver.for_each_call([&](const auto& call) { calls.emplace_back(call.name); });
  for (std::string& call : calls) call = call.substr(0, call.find("_v"));
  check_refusals({MESSAGE_RANK, "come-what-may", 2, 2, {}, "1 = 1"}, calls,
                 SANITIZED ? std::vector{1} : std::vector{1, 2, 3, 4});
}

TEST_CASE("what the driver refuses one of two ranks is an error, or nothing that the other notices",
          "[cuda][refusals][stand-in]") {
  SECTION("on one device") { check_refusals({MESSAGE_RANK, "come-what-may", 2, 2, {"RONDO_EAGER_LIMIT=64"}}); }
  SECTION("on two over PCIe") {
    check_refusals(
        {MESSAGE_RANK, "come-what-may", 2, 700, {"RONDO_EAGER_LIMIT=64", "FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"}});
  }
  SECTION("through the host, in pieces") {
    check_refusals({MESSAGE_RANK, "come-what-may-in-pieces", 2, 2, {"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none"}});
  }
}

TEST_CASE("what the driver refuses one of three ranks fails their collectives, or is nothing that others notice",
          "[cuda][refusals][stand-in]") {
  SECTION("on one device") { check_refusals({COLLECTIVE_RANK, "come-what-may", 3, 2, {}}); }
  SECTION("on three") { check_refusals({COLLECTIVE_RANK, "come-what-may", 3, 700, {"FAKECUDA_DEVICES=3"}}); }
  SECTION("through the host, in pieces") {
    check_refusals({COLLECTIVE_RANK,
                    "come-what-may",
                    3,
                    700,
                    {"FAKECUDA_DEVICES=3", "FAKECUDA_PEERS=none", "TEST_PIECE_BYTES=1000"}});
  }
}

TEST_CASE("a rank whose context is lost goes on with memory of the host", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  const std::string call = GENERATE("cuMemcpyDtoDAsync:1:700", "cuEventQuery:1:719", "cuStreamQuery:1:719");
  const std::string devices = GENERATE("FAKECUDA_DEVICES=1", "FAKECUDA_DEVICES=3");
  // What it shares a device with rank 0 does, which copies.
  if (devices == "FAKECUDA_DEVICES=1" && call.find("cuEventQuery") == std::string::npos) return;
  auto variables = kUntidy;
  variables.insert(variables.end(), {"RONDO_EAGER_LIMIT=64", "FAKECUDA_STICKY=1", devices});
  const auto ended = run_ranks_with_own(fmt::format("FAKECUDA_FAIL=$([ $RONDO_RANK != 1 ] || echo {})", call),
                                        MESSAGE_RANK, 3, "context-is-lost", variables);
  INFO(call << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring(call.substr(0, call.find(':'))));
}

TEST_CASE("a rank whose device is lost ends in peace", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  const std::string call =
      GENERATE("cuLaunchKernel:1:700", "cuMemFree:1:700", "cuMemFree:2:700", "cuMemFree:2:4", "cuStreamDestroy:1:4");
  const std::string sticky = GENERATE("0", "1");
  auto variables = kUntidy;
  variables.insert(variables.end(), {"FAKECUDA_STICKY=" + sticky, "FAKECUDA_FAIL=" + call});
  const auto ended = run_ranks(COLLECTIVE_RANK, 2, "leaves-scratch", variables);
  INFO(call << ", " << sticky << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("what fails in a group names its ranks", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended =
      run_ranks(MESSAGE_RANK, 4, "fails-in-a-group", {"RONDO_EAGER_LIMIT=64", "FAKECUDA_FAIL=cuMemcpyDtoDAsync:1:700"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("what the driver refuses in a collective of a group names its ranks", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended = run_ranks_with_own("FAKECUDA_FAIL=$([ $RONDO_RANK != 2 ] || echo cuStreamWaitEvent:1:2)",
                                        COLLECTIVE_RANK, 3, "wait-is-refused-in-a-group");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a rank of a group that is killed is named by its number there", "[cuda][refusals]") {
  const auto ended = run_ranks(MESSAGE_RANK, 4, "dies-in-a-group", {"RONDO_EAGER_LIMIT=64"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 128 + SIGKILL);
  CHECK_THAT(ended.err, !ContainsSubstring("rank 1 failed"));
  CHECK_THAT(ended.out, ContainsSubstring("[1] rondo: "));
}

TEST_CASE("a message whose stream is late runs out of time, and does not come later", "[cuda][refusals]") {
  const std::string act = GENERATE("sender-is-late", "receiver-is-late");
  const std::string nvlink = GENERATE("", "FAKECUDA_NVLINK=1", "FAKECUDA_NVLINK=0");
  if (!nvlink.empty() && !is_stand_in()) return;
  std::vector<std::string> variables{"RONDO_EAGER_LIMIT=64"};
  if (!nvlink.empty()) variables.insert(variables.end(), {"FAKECUDA_DEVICES=2", nvlink});
  const auto ended =
      run_ranks_with_own("RONDO_TIMEOUT=$([ $RONDO_RANK = 1 ] && echo 2 || echo 30)", MESSAGE_RANK, 2, act, variables);
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a copy of a buffer whose stream is late runs out of time, and does not come later", "[cuda][refusals]") {
  const auto ended = run_ranks_with_own("RONDO_TIMEOUT=0.2", MESSAGE_RANK, 1, "copy-is-late");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a message that nobody will receive is an error of its sender, who holds nothing for it any more",
          "[cuda][refusals]") {
  check_ranks(MESSAGE_RANK, 2, "communicator-is-gone", {"RONDO_EAGER_LIMIT=64"});
}

TEST_CASE("what has ended is waited for when its communicator is gone, too", "[cuda][refusals]") {
  check_ranks(MESSAGE_RANK, 2, "communicator-is-gone-before-the-wait");
}

TEST_CASE("who says that a message may be written where nothing is, is a lost rank", "[cuda][refusals]") {
  const auto ended = run_ranks(MESSAGE_RANK, 2, "false-place", {"RONDO_EAGER_LIMIT=64"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("what a device writes that hangs is no part of a later message", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  // The first that asks whether the piece has been copied.
  const auto ended =
      run_ranks_with_own("FAKECUDA_FAIL=$([ $RONDO_RANK != 0 ] || echo cuStreamQuery:1:2)", MESSAGE_RANK, 2,
                         "piece-hangs", {"RONDO_EAGER_LIMIT=64", "FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("where no memory of the device is left, collectives give up what they keep of it",
          "[cuda][refusals][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  check_ranks(COLLECTIVE_RANK, 2, "scratch-is-given-up", {"FAKECUDA_FAIL=cuMemAlloc:4:2"});
}

TEST_CASE("a copy to the host that the driver refuses is an error, and the next one goes",
          "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  check_ranks(MESSAGE_RANK, 1, "copy-to-host-fails", {"FAKECUDA_FAIL=cuMemcpyDtoHAsync:1:700"});
}

TEST_CASE("what the driver refuses at the call is an error that knows the function", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  check_ranks(MESSAGE_RANK, 1, "no-memory", {"FAKECUDA_FAIL=cuMemAlloc:1:2"});
  check_ranks(MESSAGE_RANK, 1, "no-memory-for-scratch", {"FAKECUDA_FAIL=cuMemAlloc:4:2", "FAKECUDA_FAIL_TIMES=3"});
  check_ranks(MESSAGE_RANK, 1, "parked-memory-for-scratch", {"FAKECUDA_FAIL=cuMemAlloc:3:2"});
  check_ranks(MESSAGE_RANK, 1, "stream-is-not-told", {"FAKECUDA_FAIL=cuStreamIsCapturing:1:2"});
  check_ranks(MESSAGE_RANK, 1, "record-fails", {"FAKECUDA_FAIL=cuEventRecord:1:2"});
}

TEST_CASE("what the driver refuses one rank at its call all ranks hear of", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended = run_ranks_with_own("FAKECUDA_FAIL=$([ $RONDO_RANK != 1 ] || echo cuStreamIsCapturing:1:2)",
                                        COLLECTIVE_RANK, 3, "call-is-refused");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a kernel that the driver refuses fails the collective on all ranks", "[cuda][refusals][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const auto ended = run_ranks(COLLECTIVE_RANK, 2, "launch-fails", {"FAKECUDA_FAIL=cuLaunchKernel:1:700"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("[0] ") && ContainsSubstring("[1] "));
  CHECK_THAT(ended.out, ContainsSubstring("cuLaunchKernel: got CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

TEST_CASE("a collective that failed on devices keeps no events", "[cuda][refusals][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const auto ended = run_ranks(COLLECTIVE_RANK, 3, "events-come-back", {"FAKECUDA_FAIL=cuLaunchKernel:1:700"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a copy that the driver refuses fails the collective on all ranks", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  const std::string call = GENERATE("cuMemcpyDtoHAsync", "cuMemcpy2DAsync");
  const auto ended = run_ranks(COLLECTIVE_RANK, 2, "copy-fails", {"FAKECUDA_FAIL=" + call + ":1:700"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("[0] ") && ContainsSubstring("[1] "));
  CHECK_THAT(ended.out, ContainsSubstring(call + "_v2: got CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  CHECK_THAT(ended.out, ContainsSubstring("4000 bytes"));
  // Of several pieces another than the first.
  const auto later =
      run_ranks(COLLECTIVE_RANK, 2, "copy-fails", {"FAKECUDA_FAIL=" + call + ":4:700", "TEST_PIECE_BYTES=1000"});
  INFO(later.out << later.err);
  CHECK(later.status == 0);
  CHECK_THAT(later.out, ContainsSubstring("[0] ") && ContainsSubstring("[1] "));
  CHECK_THAT(later.out, ContainsSubstring("all_reduce") && ContainsSubstring("1000 bytes"));
}

TEST_CASE("a stream whose wait the driver refuses holds nobody up", "[cuda][refusals][stand-in]") {
  if (!is_stand_in()) return;
  const std::vector<std::string> variables{"RONDO_EAGER_LIMIT=64", "FAKECUDA_COPY_MS=300",
                                           "FAKECUDA_FAIL=cuStreamWaitEvent:1:2"};
  check_ranks(MESSAGE_RANK, 2, "wait-is-refused", variables);
  check_ranks(MESSAGE_RANK, 3, "wait-is-refused-in-a-group", variables);
}

TEST_CASE("a stream that is being captured into a graph is refused", "[cuda][refusals]") {
  const auto ended = run_ranks(MESSAGE_RANK, 2, "captured", {"RONDO_EAGER_LIMIT=64"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(ended.err.empty());
  for (const char* operation : {"isend", "irecv", "all_reduce", "all_gather", "wait_on"}) {
    for (const std::string rank : {"0", "1"}) {
      const std::string who = "[" + rank + "] rondo: rank " + rank + ": ";
      CHECK_THAT(ended.out, ContainsSubstring(who + operation + ": got a stream that is being captured"));
    }
  }
}

TEST_CASE("the default stream is refused while it would wait for one that is being captured", "[cuda][refusals]") {
  check_ranks(MESSAGE_RANK, 2, "captured-for-default", {"RONDO_EAGER_LIMIT=64"});
}
