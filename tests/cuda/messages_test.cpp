#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/cuda/device_ranks.hpp"
#include "tests/cuda/device_under_test.hpp"

// Messages of memory of devices, between processes under rondo-run (message_rank.cpp).

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::is_stand_in;

namespace {

/// Longer messages are none that go without their receiver, which have tests of their own.
std::vector<std::string> with_long_messages(std::vector<std::string> variables) {
  variables.emplace_back("RONDO_EAGER_LIMIT=64");
  return variables;
}

Launched::Ended run_messages(int number, const std::string& act, const std::vector<std::string>& variables = {}) {
  return run_ranks(MESSAGE_RANK, number, act, with_long_messages(variables));
}

void check_messages(int number, const std::string& act, const std::vector<std::string>& variables = {}) {
  check_ranks(MESSAGE_RANK, number, act, with_long_messages(variables));
}

}  // namespace

TEST_CASE("messages between devices and hosts arrive whole, by every transport", "[cuda][messages]") {
  const std::string transport = GENERATE("shm", "unix", "tcp");
  check_messages(3, "around", {"RONDO_TRANSPORT=" + transport});
}

TEST_CASE("messages of memory whose side the caller does not know", "[cuda][messages]") {
  check_messages(2, "on-either-side");
}

TEST_CASE("short messages of devices go without their receiver", "[cuda][messages]") {
  const std::string transport = GENERATE("shm", "tcp");
  for (const char* seed : {"0", "1", "2"}) {
    const std::vector<std::string> variables{"RONDO_TRANSPORT=" + transport, std::string("FAKECUDA_SEED=") + seed};
    check_ranks(MESSAGE_RANK, 3, "all-send-first", variables);
  }
  // Under a sanitizer a job takes a second.
  if (SANITIZED && transport == "tcp") return;
  for (const char* act : {"around", "many", "on-either-side", "to-itself", "sender-is-behind",
                          "sender-is-behind-to-host", "receiver-is-behind", "receiver-is-behind-from-host"}) {
    check_ranks(MESSAGE_RANK, 2, act, {"RONDO_TRANSPORT=" + transport});
  }
}

TEST_CASE("a short message that its stream keeps back has its turn, and can be taken back", "[cuda][messages]") {
  check_ranks(MESSAGE_RANK, 2, "in-its-turn");
  const auto ended = run_ranks(MESSAGE_RANK, 2, "taken-back");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("devices that are late, by many seeds", "[cuda][messages]") {
  for (const char* seed : {"1", "2", "3"}) {
    check_messages(2, "many", {std::string("FAKECUDA_SEED=") + seed});
    check_messages(2, "stream-waits", {std::string("FAKECUDA_SEED=") + seed});
  }
}

TEST_CASE("more messages at a time than there are events keep their order", "[cuda][messages]") {
  check_messages(2, "many");
}

TEST_CASE("an event of a message is recorded before the other hears of it, and anew once that has seen it done",
          "[cuda][messages]") {
  const std::string seed = GENERATE("0", "1", "2");
  for (const char* const act : {"many", "many-expected", "stream-waits", "sender-is-behind-with-old-events"}) {
    check_messages(2, act, {"FAKECUDA_AWAITED=1", "FAKECUDA_SEED=" + seed});
  }
}

TEST_CASE("a rank sends memory of its device to itself", "[cuda][messages]") { check_messages(2, "to-itself"); }

TEST_CASE("a buffer is copied from the host and back", "[cuda][messages]") {
  for (const char* seed : {"0", "1", "2"}) {
    check_messages(2, "copied", {std::string("FAKECUDA_SEED=") + seed});
  }
  check_messages(2, "copied-in-a-group");
}

TEST_CASE("memory that is freed and allocated again is unmapped by the others first", "[cuda][messages]") {
  check_messages(4, "coming-and-going");
  check_messages(2, "registered");
}

TEST_CASE("a send waits on the device for what its stream has yet to write", "[cuda][messages]") {
  check_messages(2, "sender-is-behind");
  check_messages(2, "sender-is-behind-to-host");
}

TEST_CASE("a receive waits on the device for what its stream has yet to read", "[cuda][messages]") {
  check_messages(2, "receiver-is-behind");
  check_messages(2, "receiver-is-behind-from-host");
}

TEST_CASE("a stream that is behind keeps no other stream's messages back", "[cuda][messages]") {
  check_messages(2, "streams-apart");
  check_ranks(MESSAGE_RANK, 2, "streams-apart");
}

TEST_CASE("what has come is received though its sender has left", "[cuda][messages]") {
  check_messages(2, "sender-leaves");
  check_ranks(MESSAGE_RANK, 2, "left-for-later");
}

TEST_CASE("whoever leaves may free what others had mapped", "[cuda][messages]") {
  check_messages(2, "sender-leaves-and-frees");
}

TEST_CASE("a stream waits for what is received instead of the host", "[cuda][messages]") {
  check_messages(2, "stream-waits");
}

TEST_CASE("a stream waits for the other side's copy instead of the host", "[cuda][messages]") {
  const std::string act = GENERATE("sender-stream-waits", "receiver-stream-waits", "sender-second-stream-waits",
                                   "receiver-second-stream-waits");
  const std::string slow = "FAKECUDA_COPY_MS=300";
  check_messages(2, act, {slow});
  if (!is_stand_in()) return;
  check_messages(2, act, {slow, "FAKECUDA_DEVICES=2"});
  check_messages(2, act, {slow, "FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
  if (act.starts_with("sender")) check_messages(2, act, {slow, "RONDO_TRANSPORT=tcp"});
}

TEST_CASE("a stream that waits for a copy which may be over already", "[cuda][messages]") {
  for (const char* const nvlink : {"FAKECUDA_NVLINK=1", "FAKECUDA_NVLINK=0"}) {
    for (const char* const seed : {"FAKECUDA_SEED=1", "FAKECUDA_SEED=2", "FAKECUDA_SEED=3"}) {
      check_messages(2, "streams-wait-for-each-other", {"FAKECUDA_DEVICES=2", nvlink, seed});
    }
  }
}

TEST_CASE("mistakes with memory of devices are told at the call", "[cuda][messages]") { check_messages(2, "mistakes"); }

TEST_CASE("what is refused of a device's memory names the call and the ranks", "[cuda][messages]") {
  check_ranks(MESSAGE_RANK, 2, "refused-by-name");
}

TEST_CASE("memory that is freed too soon is an error of who freed it", "[cuda][messages]") {
  check_messages(2, "freed-too-soon");
  // What is still to be sent then cannot be mapped, which the log says.
  const auto ended = run_messages(2, "freed-under-a-collective");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("threads of a rank have messages at a time, and collectives on communicators of their own",
          "[cuda][messages]") {
  for (const char* const seed : {"FAKECUDA_SEED=1", "FAKECUDA_SEED=2"}) {
    check_messages(2, "threads-of-a-rank", {seed});
    if (!is_stand_in()) continue;
    check_messages(2, "threads-of-a-rank", {seed, "FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
    check_messages(2, "threads-of-a-rank", {seed, "FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none", "RONDO_LOG=error"});
  }
}

TEST_CASE("managed memory is of the device that it was made for", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended = run_messages(2, "managed-first", {"FAKECUDA_DEVICES=2"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a rank's device is that with its number on the host, of those that it sees", "[cuda][messages]") {
  check_ranks(MESSAGE_RANK, 3, "first-memory");
  if (!is_stand_in()) return;
  const std::string swapped = "RONDO_LOCAL_RANK=$((2 - $RONDO_RANK))";
  for (const char* const visible : {"CUDA_VISIBLE_DEVICES=0,1,2,3", "CUDA_VISIBLE_DEVICES=3,1"}) {
    const auto ended = run_ranks_with_own(swapped, MESSAGE_RANK, 3, "first-memory", {"FAKECUDA_DEVICES=4", visible});
    INFO(visible << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
  }
}

TEST_CASE("ranks that see one device each map each other's memory where those reach each other",
          "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const std::string visible = "CUDA_VISIBLE_DEVICES=$RONDO_RANK";
  for (const char* const act : {"around", "many", "coming-and-going", "sender-is-behind", "stream-waits"}) {
    const auto ended =
        run_ranks_with_own(visible, MESSAGE_RANK, 2, act, with_long_messages({"FAKECUDA_DEVICES=2", "RONDO_LOG=info"}));
    INFO(act << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.err, ContainsSubstring("rank 0: the device is another, which is not visible here: its memory is "
                                            "read by CUDA IPC"));
    CHECK_THAT(ended.err, !ContainsSubstring("goes through the host"));
  }
  // Otherwise the log says, once, that they do not.
  const auto ended = run_ranks_with_own(visible, MESSAGE_RANK, 2, "around",
                                        with_long_messages({"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none"}));
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(lines_of(ended.err).size() == 2);
  CHECK_THAT(ended.err, ContainsSubstring("rank 0: device memory goes through the host: rank 1: this process does not "
                                          "see its device (CUDA_VISIBLE_DEVICES): cuIpcOpenMemHandle_v2: got "
                                          "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)"));
}

TEST_CASE("ranks that number the same devices differently know that they are the same", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended =
      run_ranks_with_own("CUDA_VISIBLE_DEVICES=$RONDO_RANK,$((1 - $RONDO_RANK))", MESSAGE_RANK, 2, "around",
                         with_long_messages({"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none", "RONDO_LOG=info"}));
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  // Rank 1's device 1 is what rank 0 calls 0.
  CHECK_THAT(ended.err, ContainsSubstring("rank 1: the device is shared"));
  CHECK_THAT(ended.err, !ContainsSubstring("goes through the host"));
}

TEST_CASE("long messages that go through the host do so in pieces, a few at a time", "[cuda][messages]") {
  const std::string transport = GENERATE("shm", "unix", "tcp");
  // Where memory is shared, these devices do not reach each other.
  const std::vector<std::string> variables{"RONDO_TRANSPORT=" + transport, "FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none"};
  if (transport == "shm" && !is_stand_in()) return;
  const auto check = [&](int number, const std::string& act, const std::string& variable = "FAKECUDA_SEED=0") {
    auto all = variables;
    all.push_back(variable);
    const auto ended = run_messages(number, act, all);
    INFO(transport << ' ' << act << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
  };
  check(2, transport == "shm" ? "few-pieces-in-slots" : "few-pieces");
  for (const char* const act : {"long-streams-apart", "long-truncated", "host-goes-on"}) check(2, act);
  for (const char* const seed : {"FAKECUDA_SEED=1", "FAKECUDA_SEED=2"}) {
    check(3, "long-around", seed);
    check(2, "many-long", seed);
    check(2, "streams-wait-for-all", seed);
  }
  if (!is_stand_in()) return;
  // What cannot be pinned is copied all the same.
  check(2, "streams-wait-for-all", "FAKECUDA_FAIL=cuMemHostRegister:1:2");
  check(2, "sender-gives-up");
  check(2, "receiver-gives-up");
  check(2, "piece-fails-at-sender", "FAKECUDA_FAIL=cuMemcpyDtoHAsync:3:700");
  check(2, "piece-fails-at-receiver", "FAKECUDA_FAIL=cuMemcpyHtoDAsync:3:700");
}

TEST_CASE("where slots cannot be made, or not be mapped, pieces go by the link, and the log says why",
          "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const auto run = [](const std::string& act) {
    return run_messages(2, act, {"RONDO_TRANSPORT=shm", "FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none", "RONDO_LOG=info"});
  };
  const auto not_made = run("slots-not-made");
  INFO(not_made.out << not_made.err);
  CHECK(not_made.status == 0);
  CHECK_THAT(not_made.err, ContainsSubstring("rank 0: 2097152 bytes of shared memory are not to be had: limit of file "
                                             "sizes (ulimit -f)"));
  // A sanitizer needs descriptors of its own.
  if (SANITIZED) return;
  const auto not_mapped = run("slots-not-mapped");
  INFO(not_mapped.out << not_mapped.err);
  CHECK(not_mapped.status == 0);
  CHECK_THAT(not_mapped.err, ContainsSubstring("rank 1: 2097152 bytes of shared memory were not mapped"));
}

TEST_CASE("a capture of one stream and messages of others do not touch each other", "[cuda][messages]") {
  check_messages(2, "beside-a-capture");
  check_ranks(MESSAGE_RANK, 2, "beside-a-capture", {"RONDO_TRANSPORT=tcp"});
}

TEST_CASE("without a driver the error says what was looked for", "[cuda][messages]") {
  const auto ended = run_messages(2, "no-driver", {"RONDO_CUDA_LIBRARY=" NO_DRIVER});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring(NO_DRIVER));
}

TEST_CASE("a rank that is killed fails the messages of devices with it", "[cuda][messages]") {
  const std::string act = GENERATE("receiver-dies", "sender-dies");
  const auto ended = run_messages(2, act);
  INFO(act << ": " << ended.out << ended.err);
  CHECK(ended.status == 128 + SIGKILL);
  CHECK_THAT(ended.out, ContainsSubstring("rank 1 died: killed by SIGKILL"));
  CHECK_THAT(ended.err, !ContainsSubstring("rank 0 failed"));
}

TEST_CASE("what cannot be mapped goes through the host, and the log says why once", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const std::string call = GENERATE("cuIpcOpenMemHandle", "cuIpcGetMemHandle", "cuIpcOpenEventHandle");
  const auto ended = run_messages(3, "around", {"FAKECUDA_FAIL=" + call + ":1:2"});
  INFO(call << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
  for (const char* rank : {"0", "1", "2"}) {
    CHECK_THAT(ended.err, ContainsSubstring(std::string("rank ") + rank + ": device memory goes through the host: "));
  }
  CHECK(lines_of(ended.err).size() == 3);
}

TEST_CASE("where no more can be mapped, what nobody uses makes room", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const std::string most = "FAKECUDA_MAPPABLE=" + std::to_string(3 << 21);
  check_messages(3, "more-than-fits", {most});
  check_messages(3, "more-than-fits", {most, "FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
}

TEST_CASE("where all that is mapped is in use, the rest goes through the host, which the log says once",
          "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended = run_messages(3, "no-room", {"FAKECUDA_MAPPABLE=" + std::to_string(1 << 21)});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(lines_of(ended.err).size() == 1);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1: device memory goes through the host: cuIpcOpenMemHandle_v2: got "
                                          "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory, rank 2, 2097152 bytes"));
}

TEST_CASE("between devices over PCIe the sender writes", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const std::vector<std::string> machine{"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"};
  for (const char* const act : {"around", "many", "coming-and-going", "sender-is-behind", "receiver-is-behind",
                                "sender-leaves", "stream-waits", "streams-apart"}) {
    check_messages(2, act, machine);
  }
  auto words = machine;
  words.emplace_back("FAKECUDA_FAIL=cuMemcpyDtoDAsync:1:700");
  const auto ended = run_messages(2, "write-fails", words);
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  words = machine;
  words.emplace_back("RONDO_LOG=info");
  CHECK_THAT(run_messages(2, "many", words).err,
             ContainsSubstring("rank 1: the device is another, over PCIe: its memory is read by CUDA IPC, or written"));
}

TEST_CASE("memory that others cannot map goes through the host, and the log says why once", "[cuda][messages]") {
  const auto ended = run_messages(2, "unmappable");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, ContainsSubstring("memory pool") && ContainsSubstring("it is managed") &&
                            ContainsSubstring("cuMemCreate, perhaps"));
  CHECK(lines_of(ended.err).size() == 6);
}

TEST_CASE("between ranks that are apart memory goes through the host, and the log says so once", "[cuda][messages]") {
  const auto ended = run_messages(2, "many", {"RONDO_TRANSPORT=tcp", "RONDO_LOG=info"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const auto lines = lines_of(ended.err);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.find("through the host: some ranks are on other hosts") != std::string::npos;
        }) == 2);
}

TEST_CASE("ranks of one process send memory of their device through the host, and the log says why once",
          "[cuda][messages]") {
  const auto ended = run_messages(1, "threads");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const auto lines = lines_of(ended.err);
  CHECK(lines.size() == 3);
  for (const std::string& line : lines) CHECK_THAT(line, ContainsSubstring("it is a thread of the same process"));
}

TEST_CASE("messages one after the other never run out of events", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  check_messages(2, "in-a-row", {"FAKECUDA_FAIL=cuMemcpyDtoHAsync:1:700"});
}

TEST_CASE("messages of devices in groups whose ranks are not the world's", "[cuda][messages]") {
  check_messages(4, "in-groups");
  if (!is_stand_in()) return;
  check_messages(4, "in-groups", {"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
  check_messages(4, "in-groups", {"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none", "RONDO_LOG=error"});
}

TEST_CASE("a copy that the driver refuses is an error of the receiver", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended = run_messages(2, "copy-fails", {"FAKECUDA_FAIL=cuMemcpyDtoDAsync:1:700"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("5000 bytes"));
}

TEST_CASE("whose memory it is is told without a context, or the driver's error is", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  check_messages(1, "before-any-context", {"FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:2"});
  check_messages(1, "side-is-not-told", {"FAKECUDA_FAIL=cuDevicePrimaryCtxGetState:1:2"});
}
