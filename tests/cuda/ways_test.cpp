#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_jobs.hpp"

// What way messages of memory of devices take: mapped or written, or through the host, whole or in pieces; and what the
// log says of that (message_rank.cpp).

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::is_stand_in;

TEST_CASE("managed memory is of the device that it was made for", "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended = run_messages(2, "managed-first", {"FAKECUDA_DEVICES=2"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a rank's device is that with its number on the host, of those that it sees", "[cuda][ways]") {
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
          "[cuda][ways][stand-in]") {
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

TEST_CASE("ranks in containers of their own, where they have the same pid, are no threads of one process",
          "[cuda][ways][stand-in]") {
  const std::string apart = "unshare --user --map-root-user --pid --fork ";
  if (!is_stand_in() || std::system((apart + "true 2> /dev/null").c_str()) != 0) return;
  const auto ended =
      launch(words_for(2, {"/bin/sh", "-c", "exec " + apart + MESSAGE_RANK " around"}, with_long_messages({})));
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, !ContainsSubstring("it is a thread of the same process"));
}

TEST_CASE("ranks that number the same devices differently know that they are the same", "[cuda][ways][stand-in]") {
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

TEST_CASE("long messages that go through the host do so in pieces, a few at a time", "[cuda][ways]") {
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
    return ended.err;
  };
  check(2, transport == "shm" ? "few-pieces-in-slots" : "few-pieces");
  for (const char* const act : {"long-streams-apart", "long-truncated", "host-goes-on"}) check(2, act);
  for (const std::string& seed : seeds(1, 2)) {
    check(3, "long-around", seed);
    check(2, "many-long", seed);
    check(2, "streams-wait-for-all", seed);
  }
  if (!is_stand_in()) return;
  // What cannot be pinned is copied all the same, and the log says so.
  const std::string pins = transport == "shm" ? "cuMemHostRegister" : "cuMemHostAlloc";
  CHECK_THAT(check(2, "streams-wait-for-all", "FAKECUDA_FAIL=" + pins + ":1:2"),
             ContainsSubstring("rank 0: copies between device and host keep this rank waiting: the driver pins no more "
                               "memory of the host"));
  check(2, "sender-gives-up");
  check(2, "receiver-gives-up");
  check(2, "piece-fails-at-sender", "FAKECUDA_FAIL=cuMemcpyDtoHAsync:3:700");
  check(2, "piece-fails-at-receiver", "FAKECUDA_FAIL=cuMemcpyHtoDAsync:3:700");
}

TEST_CASE("where slots cannot be made, or not be mapped, pieces go by the link, and the log says why",
          "[cuda][ways][stand-in]") {
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

TEST_CASE("what cannot be mapped goes through the host, and the log says why once", "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const std::string call = GENERATE("cuIpcOpenMemHandle", "cuIpcGetMemHandle", "cuIpcOpenEventHandle");
  const auto ended = run_messages(3, "around", {"FAKECUDA_DEVICES=3", "FAKECUDA_FAIL=" + call + ":1:2"});
  INFO(call << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
  for (const char* rank : {"0", "1", "2"}) {
    CHECK_THAT(ended.err, ContainsSubstring(std::string("rank ") + rank + ": device memory goes through the host: "));
  }
  CHECK(lines_of(ended.err).size() == 3);
}

TEST_CASE("what fails for memory of several sizes is told once, with the first", "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const auto check = [](const std::string& failing, const std::string& why) {
    const auto ended =
        run_messages(2, "several-sizes", {"FAKECUDA_DEVICES=2", "FAKECUDA_FAIL=" + failing, "FAKECUDA_FAIL_TIMES=2"});
    INFO(failing << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
    CHECK(lines_of(ended.err).size() == 1);
    CHECK_THAT(ended.err, ContainsSubstring("device memory goes through the host: " + why) &&
                              ContainsSubstring(", 2097152 bytes"));
  };
  check("cuIpcOpenMemHandle:1:205", "cuIpcOpenMemHandle_v2: got CUDA_ERROR_MAP_FAILED (205): ");
  check("cuIpcGetMemHandle:1:1", "cuIpcGetMemHandle: got CUDA_ERROR_INVALID_VALUE (1): ");
}

TEST_CASE("where events are not for several processes all goes through the host, and the log says why once",
          "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const std::string call = GENERATE("cuIpcGetEventHandle:1:801", "cuIpcGetEventHandle:64:801", "cuEventCreate:1:801");
  const std::string why = "rank 1: device memory goes through the host: " + call.substr(0, call.find(':')) +
                          ": got CUDA_ERROR_NOT_SUPPORTED (801): operation not supported";
  for (const char* const act : {"around", "many", "stream-waits", "streams-apart", "coming-and-going", "long-around"}) {
    const auto ended = run_ranks_with_own("FAKECUDA_FAIL=$([ $RONDO_RANK != 1 ] || echo " + call + ")", MESSAGE_RANK, 2,
                                          act, with_long_messages({}));
    INFO(act << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
    CHECK(lines_of(ended.err).size() == 1);
    CHECK_THAT(ended.err, ContainsSubstring(why));
  }
  const auto all = run_messages(3, "around", {"FAKECUDA_FAIL=" + call});
  INFO(all.out << all.err);
  CHECK(all.status == 0);
  CHECK(lines_of(all.err).size() == 3);
  CHECK_THAT(all.err, ContainsSubstring(why));
}

TEST_CASE("where no more can be mapped, what nobody uses makes room", "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const std::string most = "FAKECUDA_MAPPABLE=" + std::to_string(3 << 21);
  check_messages(3, "more-than-fits", {most});
  check_messages(3, "more-than-fits", {most, "FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
}

TEST_CASE("where a driver takes something for mapped already, what nobody uses of that rank is closed first",
          "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  // Its third mapping; of the rank that it is of there is one then.
  const std::string third = "FAKECUDA_FAIL=$([ $RONDO_RANK != 1 ] || echo cuIpcOpenMemHandle:3:208)";
  const auto closed = run_ranks_with_own(third, MESSAGE_RANK, 3, "more-than-fits", with_long_messages({}));
  INFO(closed.out << closed.err);
  CHECK(closed.status == 0);
  CHECK(closed.err.empty());
  // Of its first there is nothing to close.
  const auto staged =
      run_messages(3, "more-than-fits", {"FAKECUDA_DEVICES=3", "FAKECUDA_FAIL=cuIpcOpenMemHandle:1:208"});
  INFO(staged.out << staged.err);
  CHECK(staged.status == 0);
  CHECK(lines_of(staged.err).size() == 1);
  CHECK_THAT(staged.err, ContainsSubstring("rank 1: device memory goes through the host: cuIpcOpenMemHandle_v2: got "
                                           "CUDA_ERROR_ALREADY_MAPPED (208)"));
}

TEST_CASE("a device that is not visible is tried again unless the driver says that it cannot be reached",
          "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const std::string visible = "CUDA_VISIBLE_DEVICES=$RONDO_RANK FAKECUDA_FAIL=cuIpcOpenMemHandle:1:";
  for (const auto& [code, way] : {std::pair{"1", "hidden device"}, std::pair{"217", "host"}}) {
    const auto ended = run_ranks_with_own(visible + code, MESSAGE_RANK, 2, "way-after-failure",
                                          with_long_messages({"FAKECUDA_DEVICES=2"}));
    INFO(code << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.out, ContainsSubstring(std::string("way: ") + way));
  }
}

TEST_CASE("memory of a rank that cannot be mapped some times in a row is not tried again, which the log says once",
          "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const auto run = [](const std::string& code, int times) {
    return run_messages(2, "way-after-failure",
                        {"FAKECUDA_DEVICES=2", "FAKECUDA_FAIL=cuIpcOpenMemHandle:1:" + code,
                         "FAKECUDA_FAIL_TIMES=" + std::to_string(times)});
  };
  const auto check = [](const Launched::Ended& ended, const std::string& way, std::size_t lines) {
    INFO(ended.out << ended.err);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.out, ContainsSubstring("way: " + way));
    CHECK(lines_of(ended.err).size() == lines);
  };
  check(run("1", 2), "NVLink", 1);
  const auto refused = run("1", 3);
  check(refused, "host", 2);
  CHECK_THAT(refused.err, ContainsSubstring("rank 1: device memory goes through the host: rank 0: its memory is not "
                                            "mapped any more, for that failed 3 times in a row"));
  // For want of memory it is tried as long as there are messages; what cannot be mapped beside nothing never can be.
  check(run("2", 4), "NVLink", 1);
  check(run("205", 2), "NVLink", 1);
  check(run("205", 3), "host", 2);
}

TEST_CASE("what finds no room though all else was closed for it is tried beside that, and some times in all",
          "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  for (const bool lacks_memory : {false, true}) {
    const auto ended =
        run_messages(3, "beside-unmappable",
                     {"FAKECUDA_DEVICES=3", lacks_memory ? "FAKECUDA_UNMAPPABLE=1:2" : "FAKECUDA_UNMAPPABLE=1:205"});
    INFO((lacks_memory ? "no memory: " : "not mapped: ") << ended.out << ended.err);
    CHECK(ended.status == 0);
    const bool given_up = ended.err.find(
                              "rank 0: device memory goes through the host: rank 1: its memory is not "
                              "mapped any more, for that failed 3 times in a row") != std::string::npos;
    CHECK(given_up == !lacks_memory);  // memory comes free again
    CHECK(lines_of(ended.err).size() == (lacks_memory ? 1 : 2));
  }
}

TEST_CASE("where all that is mapped is in use, the rest goes through the host, which the log says once",
          "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const auto ended = run_messages(3, "no-room", {"FAKECUDA_DEVICES=3", "FAKECUDA_MAPPABLE=" + std::to_string(1 << 21)});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(lines_of(ended.err).size() == 1);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1: device memory goes through the host: cuIpcOpenMemHandle_v2: got "
                                          "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory, rank 2, 2097152 bytes"));
}

TEST_CASE("of two ranks that share a device the first makes all copies", "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const std::string second_cannot = "FAKECUDA_FAIL=$([ $RONDO_RANK = 0 ] || echo cuMemcpyDtoDAsync:1:700)";
  for (const char* const act : {"around", "many", "coming-and-going"}) {
    const auto ended = run_ranks_with_own(second_cannot, MESSAGE_RANK, 2, act, with_long_messages({}));
    INFO(act << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
  }
  CHECK_THAT(run_messages(2, "many", {"RONDO_LOG=info"}).err,
             ContainsSubstring("rank 1: the device is shared: its memory is read and written by CUDA IPC") &&
                 ContainsSubstring("rank 0: the device is shared: it copies here and from here by CUDA IPC"));
}

TEST_CASE("between devices over PCIe the sender writes", "[cuda][ways][stand-in]") {
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

TEST_CASE("over PCIe the receiver reads where it finds that the sender does not write", "[cuda][ways][stand-in]") {
  if (!is_stand_in()) return;
  const std::string sender_cannot = "FAKECUDA_FAIL=$([ $RONDO_RANK != 0 ] || echo cuIpcOpenMemHandle:1:1)";
  const auto run = [&](int times) {
    const auto ended = run_ranks_with_own(sender_cannot, MESSAGE_RANK, 2, "way-after-failure",
                                          with_long_messages({"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0",
                                                              "FAKECUDA_FAIL_TIMES=" + std::to_string(times)}));
    INFO(ended.out << ended.err);
    CHECK(ended.status == 0);
    return ended.out;
  };
  CHECK_THAT(run(2), ContainsSubstring("way: PCIe, mapped: 0"));
  CHECK_THAT(run(100), ContainsSubstring("way: PCIe, mapped: 1"));
}

TEST_CASE("memory that others cannot map goes through the host, and the log says why once", "[cuda][ways]") {
  const auto ended = run_messages(2, "unmappable");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, ContainsSubstring("memory pool") && ContainsSubstring("it is managed") &&
                            ContainsSubstring("cuMemCreate, perhaps"));
  CHECK(lines_of(ended.err).size() == 6);
}

TEST_CASE("between ranks that are apart memory goes through the host, and the log says so once", "[cuda][ways]") {
  const auto ended = run_messages(2, "many", {"RONDO_TRANSPORT=tcp", "RONDO_LOG=info"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const auto lines = lines_of(ended.err);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.find("through the host: some ranks are on other hosts") != std::string::npos;
        }) == 2);
}

TEST_CASE("ranks of one process send memory of their device through the host, and the log says why once",
          "[cuda][ways]") {
  const auto ended = run_messages(1, "threads");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const auto lines = lines_of(ended.err);
  CHECK(lines.size() == 3);
  for (const std::string& line : lines) CHECK_THAT(line, ContainsSubstring("it is a thread of the same process"));
}
