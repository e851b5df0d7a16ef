#include <csignal>
#include <set>
#include <string>

#include <fmt/format.h>

#include "tests/cuda/device_ranks.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/lacks_kernels.hpp"

// Collectives on memory of devices, between processes under rondo-run (collective_rank.cpp).

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::has_kernels;
using rondo::testing::is_stand_in;
using rondo::testing::lacks_kernels;

namespace {

/// Devices of which none reaches another, so all goes through the host, in pieces of this length.
void check_in_pieces(int ranks, const std::string& act, int piece_bytes, std::vector<std::string> variables = {}) {
  variables.insert(variables.end(), {fmt::format("FAKECUDA_DEVICES={}", ranks), "FAKECUDA_PEERS=none",
                                     fmt::format("TEST_PIECE_BYTES={}", piece_bytes)});
  const auto ended = run_ranks(COLLECTIVE_RANK, ranks, act, variables);
  INFO(act << " of " << ranks << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
}

}  // namespace

TEST_CASE("collectives on devices give the bits that they give on the host", "[cuda][collectives]") {
  const std::string transport = GENERATE("shm", "tcp");
  const int ranks = GENERATE(1, 2, 3);
  check_ranks(COLLECTIVE_RANK, ranks, "all", {"RONDO_TRANSPORT=" + transport});
}

TEST_CASE("collectives of ranks that share a device, each of which does its own", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 3, "all", {"RONDO_ALGORITHM=direct"});
}

TEST_CASE("where all share a device the first rank does all, and the others nothing there",
          "[cuda][collectives][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const std::string call = GENERATE("cuMemcpyDtoDAsync", "cuLaunchKernel", "cuStreamWaitEvent");
  const auto ended = run_ranks_with_own("FAKECUDA_FAIL=$([ $RONDO_RANK = 0 ] || echo " + call + ":1:700)",
                                        COLLECTIVE_RANK, 3, "by-the-first");
  INFO(call << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("collectives on devices that are late, by many seeds", "[cuda][collectives]") {
  for (const std::string& seed : seeds(1, 2)) {
    check_ranks(COLLECTIVE_RANK, 2, "all", {seed});
  }
}

TEST_CASE("collectives on devices where to close others' memory waits for the device",
          "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  const std::string act = GENERATE("all", "memory-comes-again", "late-devices");
  if (act == "late-devices" && !has_kernels()) return;
  check_ranks(COLLECTIVE_RANK, 3, act, {"FAKECUDA_IMPLICIT_SYNC=1"});
}

TEST_CASE("collectives on devices by counts, of which some are zero", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 2, "by-counts");
  check_ranks(COLLECTIVE_RANK, 5, "by-counts");
  if (is_stand_in()) check_ranks(COLLECTIVE_RANK, 3, "by-counts", {"FAKECUDA_DEVICES=2"});
}

TEST_CASE("collectives on devices in groups whose ranks are not the world's", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 4, "in-groups");
  if (is_stand_in()) check_ranks(COLLECTIVE_RANK, 4, "in-groups", {"FAKECUDA_DEVICES=2"});
}

TEST_CASE("deterministic sums on devices have the bits that they have on the host", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 3, "deterministic");
}

TEST_CASE("collectives of ranks of one process go through the host, and the log says why once", "[cuda][collectives]") {
  const auto ended = run_ranks(COLLECTIVE_RANK, 1, "threads");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const auto lines = lines_of(complaints(ended.err));
  CHECK(lines.size() >= 3);  // of each rank: whom it has to do with is a matter of the algorithms
  CHECK(std::set(lines.begin(), lines.end()).size() == lines.size());
  for (const std::string& line : lines) {
    CHECK_THAT(line, ContainsSubstring("it is a thread of the same process"));
  }
}

TEST_CASE("collectives on memory that others cannot map go through the host, and the log says why once",
          "[cuda][collectives]") {
  const auto ended = run_ranks(COLLECTIVE_RANK, 3, "unmappable");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, ContainsSubstring("memory pool") && ContainsSubstring("it is managed") &&
                            ContainsSubstring("cuMemCreate, perhaps"));
  const auto lines = lines_of(complaints(ended.err));
  CHECK(std::set(lines.begin(), lines.end()).size() == lines.size());
}

TEST_CASE("elements that are not aligned are summed by the host, and the log says so", "[cuda][collectives]") {
  const auto ended = run_ranks(COLLECTIVE_RANK, 3, "misaligned");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  const auto lines = lines_of(complaints(ended.err));
  REQUIRE(lines.size() == (ended.err.find("this build has no kernels") == std::string::npos ? 1 : 0));
  for (const std::string& line : lines)
    CHECK_THAT(line, ContainsSubstring("rank 0: device memory goes through the host: it is not aligned as"));
}

TEST_CASE("collectives on memory whose side the caller does not know", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 2, "on-either-side");
}

TEST_CASE("a rank that has nothing in a collective by counts need not know whether the others are on devices",
          "[cuda][collectives]") {
  for (const char* const transport : {"RONDO_TRANSPORT=shm", "RONDO_TRANSPORT=tcp"}) {
    check_ranks(COLLECTIVE_RANK, 3, "nothing-on-either-side", {transport});
    check_ranks(COLLECTIVE_RANK, 3, "nothing-on-either-side", {transport, "TEST_PIECE_BYTES=10000"});
    const auto ended = run_ranks(COLLECTIVE_RANK, 3, "some-on-either-side", {transport});
    INFO(ended.out << ended.err);
    CHECK(ended.status == 0);
    for (const char* const rank : {"[0] ", "[1] ", "[2] "}) CHECK_THAT(ended.out, ContainsSubstring(rank));
    CHECK_THAT(ended.out, ContainsSubstring("rank 2 gave memory of a device, rank 0 of the host"));
  }
}

TEST_CASE("ranks of several devices map each other's, or take the way through the host",
          "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  for (const char* const act : {"all", "algorithms", "by-messages"}) {
    check_ranks(COLLECTIVE_RANK, 3, act, {"FAKECUDA_DEVICES=2"});
    // The log says that.
    const auto ended = run_ranks(COLLECTIVE_RANK, 3, act, {"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none"});
    INFO(ended.out << ended.err);
    CHECK(ended.status == 0);
    if (has_kernels()) CHECK_THAT(ended.err, ContainsSubstring("device 0 does not reach device 1"));
  }
}

TEST_CASE("ranks that see one device each do collectives on them", "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  for (const char* const act : {"all", "algorithms", "by-messages"}) {
    const auto run = [&](const std::string& peers) {
      return run_ranks_with_own("CUDA_VISIBLE_DEVICES=$RONDO_RANK", COLLECTIVE_RANK, 3, act,
                                {"FAKECUDA_DEVICES=3", "FAKECUDA_PEERS=" + peers});
    };
    const auto mapped = run("0-1,1-2,2-0");
    INFO(act << ": " << mapped.out << mapped.err);
    CHECK(mapped.status == 0);
    CHECK(complaints(mapped.err).empty());
    // Not all of them reach all.
    const auto staged = run("0-1,1-2");
    INFO(act << ": " << staged.out << staged.err);
    CHECK(staged.status == 0);
  }
}

TEST_CASE("a rank that cannot map the memory of one that maps its own still waits for the other's device",
          "[cuda][collectives][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  const std::string rank_1_cannot =
      "CUDA_VISIBLE_DEVICES=$RONDO_RANK FAKECUDA_FAIL=$([ $RONDO_RANK = 0 ] || echo cuIpcOpenMemHandle:1:217)";
  const auto ended = run_ranks_with_own(rank_1_cannot, COLLECTIVE_RANK, 2, "in-order-on-the-device",
                                        {"FAKECUDA_DEVICES=2", "RONDO_ALGORITHM=ring", "RONDO_TIMEOUT=20"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err,
             ContainsSubstring("rank 0: this process does not see its device (CUDA_VISIBLE_DEVICES): cuIpc"));
}

TEST_CASE("collectives on devices that can map less than they need", "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  for (const int allocations : {0, 1, 3}) {
    const std::string mappable = fmt::format("FAKECUDA_MAPPABLE={}", allocations << 21);
    const auto by_messages = run_ranks(COLLECTIVE_RANK, 3, "by-messages", {mappable});
    INFO(by_messages.out << by_messages.err);
    CHECK(by_messages.status == 0);
    const auto ended = run_ranks(COLLECTIVE_RANK, 3, "all", {mappable});
    INFO(ended.out << ended.err);
    CHECK(ended.status == 0);
    // Without kernels nothing is mapped for sums, and three are enough.
    if (has_kernels() || allocations < 3)
      CHECK_THAT(ended.err, ContainsSubstring("cuIpcOpenMemHandle_v2: got CUDA_ERROR_OUT_OF_MEMORY (2)"));
  }
}

TEST_CASE("collectives on streams that nobody makes", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 3, "default-streams");
  check_ranks(COLLECTIVE_RANK, 3, "default-streams", {"RONDO_TRANSPORT=tcp"});
}

TEST_CASE("collectives where a rank has no events that others could wait for", "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  const std::string act = GENERATE("all", "algorithms", "by-messages", "in-order-on-the-host");
  const auto ended = run_ranks_with_own("FAKECUDA_FAIL=$([ $RONDO_RANK != 1 ] || echo cuIpcGetEventHandle:1:801)",
                                        COLLECTIVE_RANK, 3, act);
  INFO(act << ": " << ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK(lines_of(complaints(ended.err)).size() == 1);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1: device memory goes through the host: cuIpcGetEventHandle"));
}

TEST_CASE("a collective on devices maps what it needs in place of what others needed",
          "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  // The inputs and outputs of the two others; nothing goes through the host but while the device waits for others.
  check_ranks(COLLECTIVE_RANK, 3, "all", {fmt::format("FAKECUDA_MAPPABLE={}", 4 << 21)});
}

TEST_CASE("each algorithm that works on devices gives what the host gives", "[cuda][collectives]") {
  const int ranks = GENERATE(1, 2, 4);
  check_ranks(COLLECTIVE_RANK, ranks, "algorithms");
  if (is_stand_in()) check_ranks(COLLECTIVE_RANK, ranks, "algorithms", {"FAKECUDA_SEED=3", "FAKECUDA_TIME_SLICE=1"});
}

TEST_CASE("inexact sums on devices have the bits of the host's, in rank order", "[cuda][collectives]") {
  if (lacks_kernels()) return;
  const int ranks = GENERATE(3, 5);
  check_ranks(COLLECTIVE_RANK, ranks, "in-rank-order");
  if (is_stand_in()) check_ranks(COLLECTIVE_RANK, ranks, "in-rank-order", {"FAKECUDA_DEVICES=2"});
}

TEST_CASE("an event of a collective is recorded before others hear of it, and anew once all wait for it",
          "[cuda][collectives]") {
  if (lacks_kernels()) return;
  const int ranks = GENERATE(2, 3);
  for (const std::string& late : seeds(0, 2)) {
    // All ranks wait for each rank's, or one does.
    for (const char* const act : {"algorithms", "many-direct"}) {
      check_ranks(COLLECTIVE_RANK, ranks, act, {late, fmt::format("FAKECUDA_AWAITED={}", ranks - 1)});
    }
    for (const char* const act : {"by-messages", "many-by-messages"}) {
      check_ranks(COLLECTIVE_RANK, ranks, act, {late, "FAKECUDA_AWAITED=1"});
    }
  }
}

TEST_CASE("eight ranks share a device, or have one each", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 8, "on-either-side");
  if (is_stand_in()) check_ranks(COLLECTIVE_RANK, 8, "on-either-side", {"FAKECUDA_DEVICES=8"});
}

TEST_CASE("more ranks than a kernel takes inputs of share a device", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 17, "on-either-side");
}

TEST_CASE("what goes by messages on devices does so in long chunks", "[cuda][collectives][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  // Around the ring each rank combines 16 times, if not in chunks.
  check_ranks(COLLECTIVE_RANK, 17, "long-of-many", {"FAKECUDA_FAIL=cuLaunchKernel:17:700"});
}

TEST_CASE("algorithms by messages give on devices what they give on the host", "[cuda][collectives]") {
  const int ranks = GENERATE(2, 3, 4);
  check_ranks(COLLECTIVE_RANK, ranks, "by-messages");
  check_ranks(COLLECTIVE_RANK, ranks, "by-messages", {"FAKECUDA_SEED=5", "RONDO_TRANSPORT=tcp"});
}

TEST_CASE("kernels are loaded when the device is, or sums go through the host", "[cuda][collectives]") {
  if (lacks_kernels()) return;
  check_ranks(COLLECTIVE_RANK, 1, "kernels-come-first");
  if (!is_stand_in()) return;
  const auto ended = run_ranks(COLLECTIVE_RANK, 2, "on-either-side", {"FAKECUDA_FAIL=cuModuleLoadData:1:209"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.err, ContainsSubstring("device memory goes through the host: cuModuleLoadData: got") &&
                            ContainsSubstring(", the driver is for CUDA 13.0)"));
}

TEST_CASE("several collectives at a time go through the host", "[cuda][collectives]") {
  for (const std::string& seed : seeds(0, 2)) check_ranks(COLLECTIVE_RANK, 3, "several-on-the-host", {seed});
}

TEST_CASE("long collectives go through the host in pieces", "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  const int ranks = GENERATE(2, 3, 5);
  if (SANITIZED && ranks == 5) return;  // five that poll take too long on few cores
  for (const std::string& seed : seeds(0, 1)) {
    check_in_pieces(ranks, "around-the-border", 600, {seed});
    check_in_pieces(ranks, "by-counts", 1000, {seed});
    check_in_pieces(ranks, "by-messages", 5000, {seed});
    check_in_pieces(ranks, "deterministic", 10'000, {seed});
    check_in_pieces(ranks, "several-on-the-host", 3000, {seed});
  }
}

TEST_CASE("collectives among ranks of several hosts go through the host in pieces", "[cuda][collectives]") {
  for (const std::string& seed : seeds(0, 1)) {
    const auto ended = run_ranks(COLLECTIVE_RANK, 4, "on-several-hosts", {seed, "TEST_PIECE_BYTES=1000"});
    INFO(ended.out << ended.err);
    CHECK(ended.status == 0);
  }
}

TEST_CASE("while a piece is combined the next one is copied to the host, and the last one back",
          "[cuda][collectives][stand-in]") {
  if (is_stand_in()) check_ranks(COLLECTIVE_RANK, 2, "pieces-overlap", {"TEST_PIECE_BYTES=1000"});
}

TEST_CASE("a piece stays on the host until the device has it", "[cuda][collectives][stand-in]") {
  if (is_stand_in()) check_in_pieces(2, "results-are-kept", 1000);
}

TEST_CASE("collectives through the host pin little of it", "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  check_in_pieces(2, "little-is-pinned", 1 << 18);
  check_in_pieces(2, "little-is-pinned", 1 << 18, {"RONDO_TRANSPORT=tcp"});
}

TEST_CASE("long collectives through the host wait for no stream of others", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 2, "beside-a-held-stream");
}

TEST_CASE("a collective that fails leaves its copies what they need", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 2, "memory-stays-held", {"TEST_PIECE_BYTES=1000"});
}

TEST_CASE("memory that collectives have mapped is freed, and mapped anew", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 3, "memory-comes-again");
}

TEST_CASE("a device that is late is named when time is up", "[cuda][collectives]") {
  if (lacks_kernels()) return;
  const auto ended = run_ranks(COLLECTIVE_RANK, 3, "late-is-named");
  INFO(ended.out << ended.err);
  CHECK_THAT(ended.out, ContainsSubstring("all_reduce(float x 1000, sum, leader, on a device) #3: waiting 5 s for "
                                          "rank 1"));
}

TEST_CASE("a collective of buffers on the host and on devices is an error of all ranks", "[cuda][collectives]") {
  const auto ended = run_ranks(COLLECTIVE_RANK, 2, "one-is-on-the-host");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("[0] ") && ContainsSubstring("[1] "));
  CHECK_THAT(ended.out, ContainsSubstring("all_reduce(float x 10, sum, direct, on a device)"));
  CHECK_THAT(ended.out, ContainsSubstring("all_reduce(float x 10, sum, direct)"));
}

TEST_CASE("all_to_all by counts of which two ranks have different ones is an error of both", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 2, "counts-differ");
  if (!is_stand_in()) return;
  check_ranks(COLLECTIVE_RANK, 2, "counts-differ", {"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none", "RONDO_LOG=error"});
}

TEST_CASE("what one rank moves for all is no copy of the driver's", "[cuda][collectives][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  check_ranks(COLLECTIVE_RANK, 3, "moved-at-once", {"FAKECUDA_FAIL=cuMemcpyDtoDAsync:1:700"});
}

TEST_CASE("a rank that is killed fails the collective on devices", "[cuda][collectives]") {
  const std::string act = GENERATE("one-dies", "one-dies-with-work-queued");
  if (act != "one-dies" && !has_kernels()) return;
  const auto ended = run_ranks(COLLECTIVE_RANK, 3, act);
  INFO(ended.out << ended.err);
  CHECK(ended.status == 128 + SIGKILL);
  CHECK_THAT(ended.out, ContainsSubstring("[0] rondo: ") && ContainsSubstring("[2] rondo: "));
  CHECK_THAT(ended.out, ContainsSubstring("rank 1 died: killed by SIGKILL"));
}
