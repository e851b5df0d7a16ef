#include <csignal>
#include <string>
#include <vector>

#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_jobs.hpp"

// Messages of memory of devices, between processes under rondo-run (message_rank.cpp).

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::is_stand_in;

TEST_CASE("messages between devices and hosts arrive whole, by every transport", "[cuda][messages]") {
  const std::string transport = GENERATE("shm", "unix", "tcp");
  check_messages(3, "around", {"RONDO_TRANSPORT=" + transport});
}

TEST_CASE("messages of memory whose side the caller does not know", "[cuda][messages]") {
  check_messages(2, "on-either-side");
}

TEST_CASE("short messages of devices go without their receiver", "[cuda][messages]") {
  const std::string transport = GENERATE("shm", "tcp");
  for (const std::string& seed : seeds(0, 2)) {
    check_ranks(MESSAGE_RANK, 3, "all-send-first", {"RONDO_TRANSPORT=" + transport, seed});
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
  for (const std::string& seed : seeds(1, 3)) {
    check_messages(2, "many", {seed});
    check_messages(2, "stream-waits", {seed});
  }
}

TEST_CASE("more messages at a time than there are events keep their order", "[cuda][messages]") {
  check_messages(2, "many");
}

TEST_CASE("an event of a message is recorded before the other hears of it, and anew once that has seen it done",
          "[cuda][messages]") {
  for (const std::string& seed : seeds(0, 2)) {
    for (const char* const act : {"many", "many-expected", "stream-waits", "sender-is-behind-with-old-events"}) {
      check_messages(2, act, {"FAKECUDA_AWAITED=1", "FAKECUDA_DEVICES=2", seed});
    }
  }
}

TEST_CASE("a rank sends memory of its device to itself", "[cuda][messages]") { check_messages(2, "to-itself"); }

TEST_CASE("a buffer is copied from the host and back", "[cuda][messages]") {
  for (const std::string& seed : seeds(0, 2)) check_messages(2, "copied", {seed});
  check_messages(2, "copied-in-a-group");
}

TEST_CASE("while a buffer is copied from the host or back, messages of other threads go on", "[cuda][messages]") {
  check_messages(2, "beside-a-copy");
}

TEST_CASE("memory that is freed and allocated again is unmapped by the others first", "[cuda][messages]") {
  check_messages(4, "coming-and-going");
  check_messages(2, "registered");
}

TEST_CASE("memory is freed later where another's stream that has it mapped waits for who frees it",
          "[cuda][messages]") {
  if (!is_stand_in()) return check_messages(2, "freed-later");
  const auto ended = run_ranks_with_own("FAKECUDA_FAIL=$([ $RONDO_RANK != 1 ] || echo cuMemAlloc:2:2)", MESSAGE_RANK, 2,
                                        "freed-later", with_long_messages({"FAKECUDA_IMPLICIT_SYNC=1"}));
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("memory is freed later where a stream waits for a rank that waits for who frees it", "[cuda][messages]") {
  check_messages(2, "freed-beside-a-wait");
}

TEST_CASE("messages where to close others' memory waits for the device", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  const std::string mode = "FAKECUDA_IMPLICIT_SYNC=1";
  for (const char* const act : {"around", "many", "stream-waits", "both-streams-wait-for-streams", "most-streams-wait",
                                "sender-is-behind-with-old-events"}) {
    for (const std::string& seed : seeds(0, 1)) check_messages(2, act, {mode, seed});
  }
  check_messages(4, "coming-and-going", {mode});
  check_messages(3, "more-than-fits", {mode, "FAKECUDA_MAPPABLE=" + std::to_string(3 << 21)});
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

TEST_CASE("messages on streams that nobody makes", "[cuda][messages]") {
  check_messages(2, "default-streams");
  if (is_stand_in()) check_messages(2, "default-streams", {"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
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
  check_messages(2, act);
  if (!is_stand_in()) return;
  check_messages(2, act, {"FAKECUDA_DEVICES=2"});
  check_messages(2, act, {"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
  if (act.starts_with("sender")) check_messages(2, act, {"RONDO_TRANSPORT=tcp"});
}

TEST_CASE("a stream waits for a message that neither stream has come to instead of the host, and keeps no other back",
          "[cuda][messages]") {
  const std::string act = GENERATE("sender-stream-waits-for-streams", "receiver-stream-waits-for-streams",
                                   "both-streams-wait-for-streams", "most-streams-wait");
  const std::string awaited = "FAKECUDA_AWAITED=1";
  check_messages(2, act, {awaited});
  if (!is_stand_in()) return;
  check_messages(2, act, {awaited, "FAKECUDA_DEVICES=2", "FAKECUDA_SEED=1"});
  check_messages(2, act, {"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0", "FAKECUDA_SEED=2"});
}

TEST_CASE("a stream that waits for a copy which may be over already", "[cuda][messages]") {
  for (const char* const nvlink : {"FAKECUDA_NVLINK=1", "FAKECUDA_NVLINK=0"}) {
    if (nvlink == std::string("FAKECUDA_NVLINK=0") && !is_stand_in()) continue;
    for (const std::string& seed : seeds(1, 3)) {
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

TEST_CASE("a message that its sender gave up is not received", "[cuda][messages]") {
  const std::string transport = GENERATE("shm", "tcp");
  check_messages(2, "given-up-before-the-receive", {"RONDO_TRANSPORT=" + transport});
  if (!is_stand_in()) return;
  check_messages(2, "given-up-before-the-receive", {"RONDO_TRANSPORT=" + transport, "FAKECUDA_DEVICES=2"});
  check_messages(2, "given-up-before-the-receive",
                 {"RONDO_TRANSPORT=" + transport, "FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
}

TEST_CASE("a message on a device that waits is no deadlock", "[cuda][messages]") { check_messages(2, "awaits-nobody"); }

TEST_CASE("a rank leaves though another one that it has dealt with waits for a third", "[cuda][messages]") {
  check_messages(3, "leaves-beside");
}

TEST_CASE("threads of a rank have messages at a time, and collectives on communicators of their own",
          "[cuda][messages]") {
  for (const std::string& seed : seeds(1, 2)) {
    check_messages(2, "threads-of-a-rank", {seed});
    if (!is_stand_in()) continue;
    check_messages(2, "threads-of-a-rank", {seed, "FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
    check_messages(2, "threads-of-a-rank", {seed, "FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none", "RONDO_LOG=error"});
  }
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
  const auto ended = run_messages(2, "copy-fails", {"FAKECUDA_DEVICES=2", "FAKECUDA_FAIL=cuMemcpyDtoDAsync:1:700"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("5000 bytes"));
}

TEST_CASE("whose memory it is is told without a context, or the driver's error is", "[cuda][messages][stand-in]") {
  if (!is_stand_in()) return;
  check_messages(1, "before-any-context", {"FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:2"});
  check_messages(1, "side-is-not-told", {"FAKECUDA_FAIL=cuDevicePrimaryCtxGetState:1:2"});
}
