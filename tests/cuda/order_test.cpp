#include <string>

#include <fmt/format.h>

#include "tests/cuda/device_ranks.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/lacks_kernels.hpp"

// In which order collectives on memory of devices come, between processes under rondo-run (collective_rank.cpp).

using namespace rondo::test;
using rondo::testing::is_stand_in;
using rondo::testing::lacks_kernels;

TEST_CASE("collectives of one communicator come one after the other, by whatever algorithm", "[cuda][collectives]") {
  for (const std::string& seed : seeds(0, 4)) {
    for (const char* const devices : {"FAKECUDA_DEVICES=1", "FAKECUDA_DEVICES=3"}) {
      check_ranks(COLLECTIVE_RANK, 3, "in-a-row-by-any", {devices, seed});
    }
    if (!is_stand_in()) continue;
    for (const char* const unmapped : {"FAKECUDA_PEERS=none", "FAKECUDA_MAPPABLE=4000000"}) {
      const auto ended = run_ranks(COLLECTIVE_RANK, 3, "in-a-row-by-any", {"FAKECUDA_DEVICES=3", unmapped, seed});
      INFO(unmapped << ": " << ended.out << ended.err);
      CHECK(ended.status == 0);
    }
  }
}

TEST_CASE("a collective comes after those before it over one that goes through the host",
          "[cuda][collectives][stand-in]") {
  if (!is_stand_in() || lacks_kernels()) return;
  check_ranks(COLLECTIVE_RANK, 3, "over-one-on-the-host", {"FAKECUDA_DEVICES=3"});
}

TEST_CASE("who waits on the device for what comes through the host in pieces has all of them",
          "[cuda][collectives][stand-in]") {
  if (is_stand_in()) check_ranks(COLLECTIVE_RANK, 1, "pieces-in-a-row", {"FAKECUDA_FAIL=cuEventQuery:1:600"});
}

TEST_CASE("what a stream waits for does not keep another thread from the next collective", "[cuda][collectives]") {
  if (!lacks_kernels()) check_ranks(COLLECTIVE_RANK, 2, "from-thread-to-thread");
}

TEST_CASE("collectives of one communicator do not wait for streams of another's", "[cuda][collectives]") {
  check_ranks(COLLECTIVE_RANK, 2, "communicators-apart", {"RONDO_TIMEOUT=20"});
}

TEST_CASE("a collective on devices comes where its stream has it", "[cuda][collectives]") {
  const std::string act = GENERATE("in-order-on-the-device", "in-order-on-the-host");
  check_ranks(COLLECTIVE_RANK, 3, act);
  check_ranks(COLLECTIVE_RANK, 3, act, {"RONDO_TRANSPORT=tcp"});
}

TEST_CASE("a collective that ranks would do on devices, and cannot, comes where its stream has it",
          "[cuda][collectives][stand-in]") {
  if (!is_stand_in()) return;
  const int allocations = GENERATE(0, 1, 3);
  for (const char* const algorithm : {"automatic", "ring"}) {
    const auto ended = run_ranks(
        COLLECTIVE_RANK, 3, "in-order-on-the-device",
        {fmt::format("FAKECUDA_MAPPABLE={}", allocations << 21), fmt::format("RONDO_ALGORITHM={}", algorithm)});
    INFO(algorithm << ": " << ended.out << ended.err);
    CHECK(ended.status == 0);
  }
}

TEST_CASE("the host of a collective on devices waits for no device", "[cuda][collectives]") {
  if (lacks_kernels()) return;
  check_ranks(COLLECTIVE_RANK, 3, "late-devices");
  check_ranks(COLLECTIVE_RANK, 3, "ahead-of-the-device");
}

TEST_CASE("a collective in pieces comes where its stream has it", "[cuda][collectives]") {
  for (const std::string& seed : seeds(0, 2)) {
    check_ranks(COLLECTIVE_RANK, 3, "in-order-on-the-host", {seed, "TEST_PIECE_BYTES=1000"});
  }
}
