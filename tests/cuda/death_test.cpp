#include <csignal>
#include <string>
#include <vector>

#include "tests/cuda/device_ranks.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/lacks_kernels.hpp"
#include "tests/process/failure.hpp"

// Rank 1 is killed while a copy between devices' memory is under way, which takes much longer than the others may take
// to hear of it, or while kernels of theirs wait for it (death_rank.cpp).

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using rondo::testing::is_stand_in;
using rondo::testing::lacks_kernels;

namespace {

void check_heard(const Failure& failure, int ranks) {
  CHECK(failure.ended.status == 128 + SIGKILL);
  CHECK(failure.heard.size() == static_cast<std::size_t>(ranks) - 1);
  for (const Heard& heard : failure.heard) {
    CHECK_THAT(heard.text, StartsWith("peer_failed peer 1: ") && ContainsSubstring("rank 1 died: killed by SIGKILL"));
  }
}

/// `for_ever`: the devices wait for the dead rank, so that nothing is given back which they may still use. Else they
/// are but long at copying, and come to an end when nobody waits for them any more.
void check_death(int ranks, const std::string& act, std::vector<std::string> variables = {}, bool for_ever = false) {
  variables.insert(variables.end(), {"FAKECUDA_COPY_MS=3000", "RONDO_EAGER_LIMIT=64"});
  INFO(act);
  check_failure(words_for(ranks, {DEATH_RANK, act}, variables), kSoonMilliseconds, [&](const Failure& failure) {
    INFO(failure.ended.out << failure.ended.err);
    check_heard(failure, ranks);
    CHECK_THAT(failure.ended.err, !ContainsSubstring("exited with status 3"));
    if (for_ever) CHECK_THAT(failure.ended.err, !ContainsSubstring("stand-in driver: "));
    // Nobody had to be killed because it waited for its device.
    if (HOW_SOON_COUNTS) CHECK_THAT(failure.ended.err, !ContainsSubstring("after the first signal"));
  });
}

}  // namespace

TEST_CASE("a rank that is killed in the middle of a message's copy fails the other one at once",
          "[cuda][death][stand-in]") {
  if (!is_stand_in()) return;
  // Of two that share a device the first copies.
  check_death(2, "sender-while-receiver-copies");
  check_death(2, "receiver-while-sender-copies");
  check_death(2, "sender-while-receiver-copies", {"FAKECUDA_DEVICES=2"});
  check_death(2, "receiver-while-it-copies", {"FAKECUDA_DEVICES=2"});
  const std::vector<std::string> over_pcie{"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"};
  check_death(2, "sender-while-it-copies", over_pcie);
  check_death(2, "receiver-while-sender-copies", over_pcie);
}

TEST_CASE(
    "a rank that is killed in the middle of a message that goes through the host in pieces fails the other one at once",
    "[cuda][death][stand-in]") {
  if (!is_stand_in()) return;
  const std::vector<std::string> apart{"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none"};
  check_death(2, "sender-while-receiver-copies-pieces", apart);
  check_death(2, "receiver-while-it-copies-pieces", apart);
  check_death(2, "sender-while-it-copies-pieces", apart);
  check_death(2, "receiver-while-sender-copies-pieces", apart);
}

TEST_CASE("a rank that is killed in the middle of a copy for which a stream waits fails the other one at once",
          "[cuda][death][stand-in]") {
  if (!is_stand_in()) return;
  check_death(2, "receiver-for-a-stream", {"FAKECUDA_DEVICES=2"});
  check_death(2, "sender-for-a-stream", {"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"});
}

TEST_CASE(
    "a rank that is killed before its stream has come to a copy for which a stream waits fails the other one at once",
    "[cuda][death]") {
  for (const char* const act : {"receiver-held-for-a-stream", "sender-held-for-a-stream"}) {
    check_death(2, act, {}, true);
    if (is_stand_in()) check_death(2, act, {"FAKECUDA_DEVICES=2", "FAKECUDA_NVLINK=0"}, true);
  }
}

TEST_CASE("a rank whose stream waits for one that is killed hears of it while it frees memory", "[cuda][death]") {
  check_death(2, "frees-for-a-stream", {}, true);
}

TEST_CASE("a copy to the host does not wait for ever on a stream that waits for a rank which is killed",
          "[cuda][death]") {
  check_death(2, "copies-for-a-stream", {}, true);
}

TEST_CASE(
    "a rank whose stream waits for one that is killed closes nothing for which a driver would wait for the stream",
    "[cuda][death][stand-in]") {
  if (!is_stand_in()) return;
  for (const char* const device : {"FAKECUDA_DEVICES=1", "FAKECUDA_DEVICES=2"}) {
    const std::vector<std::string> waits{"FAKECUDA_IMPLICIT_SYNC=1", device};
    check_death(2, "closes-the-dead-for-a-stream", waits, true);
    // What it does not close, its owner cannot free.
    check_death(3, "closes-another-for-a-stream", {waits[0], device, "FAKECUDA_STRICT=0"}, true);
  }
}

TEST_CASE("a rank that is killed in the middle of a collective's copies fails the others at once",
          "[cuda][death][stand-in]") {
  if (!is_stand_in()) return;
  const std::string act = GENERATE("all-gather-mapped", "all-gather-by-messages");
  check_death(3, act);
}

TEST_CASE("a rank that is killed with the others' kernels queued fails them at once, and they come to an end",
          "[cuda][death]") {
  if (lacks_kernels()) return;
  const std::string act = GENERATE("all-reduce-mapped", "all-reduce-by-messages");
  auto words = words_for(3, {DEATH_RANK, act}, {});
  // Without a sanitizer they are done before the launcher would kill them.
  if (!HOW_SOON_COUNTS) words.insert(words.begin(), {"--grace", "30"});
  check_failure(words, kSoonMilliseconds, [&](const Failure& failure) {
    INFO(failure.ended.out << failure.ended.err);
    check_heard(failure, 3);
    CHECK_THAT(failure.ended.err, ContainsSubstring("ranks 0 and 2 (exited with status 0 when told to end)"));
  });
}
