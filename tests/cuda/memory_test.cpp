#include <string>

#include "tests/cuda/device_ranks.hpp"
#include "tests/cuda/device_under_test.hpp"

// What a job takes of the device's memory, between processes under rondo-run (memory_rank.cpp). On a real driver, where
// the contexts of other ranks are a matter of hundreds of megabytes, one rank, and all but 32 MiB is to come back.

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::is_stand_in;

TEST_CASE("a job gives back all the memory that it took of the device", "[cuda][memory]") {
  const int ranks = GENERATE(1, 2, 3);
  if (ranks > 1 && !is_stand_in()) return;
  for (const char* const act : {"all", "outlives-the-communicator"}) {
    check_ranks(MEMORY_RANK, ranks, act);
    check_ranks(MEMORY_RANK, ranks, act, {"RONDO_EAGER_LIMIT=64"});
    check_ranks(MEMORY_RANK, ranks, act,
                {"RONDO_EAGER_LIMIT=64", "FAKECUDA_SEED=1", "FAKECUDA_MAPPABLE=" + std::to_string(16 << 20)});
  }
}

TEST_CASE("so does one that failed", "[cuda][memory][stand-in]") {
  if (!is_stand_in()) return;
  const std::string act = GENERATE("failed", "fails-for-want-of-a-rank");
  const auto ended = run_ranks(MEMORY_RANK, 3, act);
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
}

TEST_CASE("a rank that leaves takes nothing away that others have not closed in time", "[cuda][memory][stand-in]") {
  if (!is_stand_in()) return;
  // What is left on purpose the stand-in counts as a mistake.
  const auto ended = run_ranks(MEMORY_RANK, 2, "one-does-not-wait", {"RONDO_EAGER_LIMIT=64"});
  INFO(ended.out << ended.err);
  CHECK_THAT(ended.err, ContainsSubstring("bytes of the device are not freed: somebody has not been done with them"));
  CHECK_THAT(ended.err, !ContainsSubstring("another process"));
}

TEST_CASE("so does one whose ranks take their time", "[cuda][memory][stand-in]") {
  if (!is_stand_in()) return;
  check_ranks(MEMORY_RANK, 3, "one-leaves-early");
  check_ranks(MEMORY_RANK, 2, "device-still-at-work", {"FAKECUDA_COPY_MS=1500"});
}
