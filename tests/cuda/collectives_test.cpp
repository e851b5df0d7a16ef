#include <csignal>
#include <string>

#include "tests/cuda/device_ranks.hpp"

// Collectives on memory of devices, between processes under rondo-run (collective_rank.cpp).

using namespace rondo::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("collectives on devices give the bits that they give on the host", "[cuda][collectives]") {
  const std::string transport = GENERATE("shm", "tcp");
  const int ranks = GENERATE(1, 2, 3);
  check_ranks(COLLECTIVE_RANK, ranks, "all", {"RONDO_TRANSPORT=" + transport});
}

TEST_CASE("collectives on devices that are late, by many seeds", "[cuda][collectives]") {
  for (const char* seed : {"1", "2"}) {
    check_ranks(COLLECTIVE_RANK, 2, "all", {std::string("FAKECUDA_SEED=") + seed});
  }
}

TEST_CASE("a collective on devices comes where its stream has it", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 3, "in-order-of-the-stream");
}

TEST_CASE("a copy that the driver refuses fails the collective on all ranks", "[cuda][collectives]") {
  const std::string call = GENERATE("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync");
  // The first of the latter is the test's own.
  const std::string nth = call == "cuMemcpyHtoDAsync" ? "2" : "1";
  const auto ended = run_ranks(COLLECTIVE_RANK, 2, "copy-fails", {"FAKECUDA_FAIL=" + call + ":" + nth + ":700"});
  INFO(ended.out << ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, ContainsSubstring("[0] ") && ContainsSubstring("[1] "));
  CHECK_THAT(ended.out, ContainsSubstring(call + "_v2: got CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  CHECK_THAT(ended.out, ContainsSubstring("4000 bytes"));
}

TEST_CASE("a rank that is killed fails the collective on devices", "[cuda][collectives]") {
  const auto ended = run_ranks(COLLECTIVE_RANK, 3, "one-dies");
  INFO(ended.out << ended.err);
  CHECK(ended.status == 128 + SIGKILL);
  CHECK_THAT(ended.out, ContainsSubstring("[0] rondo: ") && ContainsSubstring("[2] rondo: "));
  CHECK_THAT(ended.out, ContainsSubstring("rank 1 died: killed by SIGKILL"));
}
