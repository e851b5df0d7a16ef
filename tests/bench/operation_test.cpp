#include "bench/operation.hpp"

#include "tests/support/catch.hpp"

using namespace rondo::bench;

TEST_CASE("bus bandwidth factors are those of nccl-tests", "[bench]") {
  CHECK(bus_factor(Operation::all_reduce, 4) == Catch::Approx(2 * 3.0 / 4));
  for (const auto operation :
       {Operation::all_gather, Operation::reduce_scatter, Operation::all_to_all, Operation::gather, Operation::scatter})
    CHECK(bus_factor(operation, 4) == Catch::Approx(3.0 / 4));
  for (const auto operation : {Operation::broadcast, Operation::reduce, Operation::latency, Operation::bandwidth})
    CHECK(bus_factor(operation, 4) == 1);
  CHECK(bus_factor(Operation::all_reduce, 1) == 0);
}

TEST_CASE("bytes are the larger buffer's, count is of a block", "[bench]") {
  CHECK(shape_of(Operation::all_reduce, 1024, 4, 4) == Shape{256, 1024});
  CHECK(shape_of(Operation::broadcast, 1024, 4, 4) == Shape{256, 1024});
  CHECK(shape_of(Operation::all_gather, 1024, 4, 4) == Shape{64, 1024});
  CHECK(shape_of(Operation::all_to_all, 1000, 8, 3) == Shape{41, 984});
  CHECK(shape_of(Operation::reduce_scatter, 1024, 2, 3) == Shape{170, 1020});
}

TEST_CASE("a size too small for the ranks becomes one element each", "[bench]") {
  CHECK(shape_of(Operation::all_gather, 8, 4, 4) == Shape{1, 16});
  CHECK(shape_of(Operation::latency, 1, 8, 2) == Shape{1, 8});
  CHECK(shape_of(Operation::latency, 0, 8, 2) == Shape{0, 0});
  CHECK(shape_of(Operation::barrier, 1024, 8, 2) == Shape{0, 0});
}

TEST_CASE("operations are found by the names that the table prints", "[bench]") {
  for (const auto* name : {"latency", "bandwidth", "all_reduce", "reduce", "broadcast", "scatter", "gather",
                           "all_gather", "reduce_scatter", "all_to_all", "barrier"}) {
    const auto operation = parse_operation(name);
    REQUIRE(operation);
    CHECK(facts(*operation).name == name);
    CHECK_THAT(known_operations(), Catch::Matchers::ContainsSubstring(name));
  }
  CHECK_FALSE(parse_operation("allreduce"));
}

TEST_CASE("what is read and written: each input once, each output once", "[bench]") {
  constexpr int kRanks = 4;
  CHECK(memory_factor(Operation::latency, kRanks) == 1 + 1);
  CHECK(memory_factor(Operation::bandwidth, kRanks) == 1 + 1);
  CHECK(memory_factor(Operation::all_reduce, kRanks) == 4 + 4);
  CHECK(memory_factor(Operation::reduce, kRanks) == 4 + 1);
  CHECK(memory_factor(Operation::broadcast, kRanks) == 1 + 3);
  CHECK(memory_factor(Operation::scatter, kRanks) == 1 + 4 * 0.25);
  CHECK(memory_factor(Operation::gather, kRanks) == 4 * 0.25 + 1);
  CHECK(memory_factor(Operation::all_gather, kRanks) == 4 * 0.25 + 4);
  CHECK(memory_factor(Operation::reduce_scatter, kRanks) == 4 + 4 * 0.25);
  CHECK(memory_factor(Operation::all_to_all, kRanks) == 4 + 4);
  CHECK(memory_factor(Operation::barrier, kRanks) == 0);
}
