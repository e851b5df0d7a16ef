#include "bench/compare.hpp"

#include "bench/table.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::size_t kSmall = 8;
constexpr std::size_t kLarge = 16 << 20;

std::string table_of(std::size_t bytes, double p50) {
  Result result;
  result.operation = Operation::latency;
  result.type = "float";
  result.reduce = "none";
  result.bytes = bytes;
  result.time_us = {p50 + 1, p50 - 1, p50, p50 + 5, p50 + 9};
  return table_head() + table_row(result) + table_foot({result});
}

Samples where_rondo_takes(double microseconds) {
  Samples samples;
  for (const Goal& goal : goals()) {
    samples["rondo"][goal.cell] = {microseconds};
    samples[goal.rival][goal.rival_cell] = {100};
  }
  return samples;
}

}  // namespace

TEST_CASE("the comparison reads the tables that the programs print", "[bench]") {
  std::map<Cell, std::vector<double>> cells;
  read_table(table_of(kSmall, 3.5), "latency", 2, cells);
  read_table(table_of(kSmall, 4.5), "latency", 2, cells);
  CHECK(cells == std::map<Cell, std::vector<double>>{{Cell{"latency", 2, kSmall}, {3.5, 4.5}}});
  CHECK_THROWS_WITH(read_table("garbage", "latency", 2, cells), ContainsSubstring("garbage"));
}

TEST_CASE("a median is over the rounds", "[bench]") {
  const Cell cell{"latency", 2, kSmall};
  const Samples samples{{"rondo", {{cell, {9, 1, 3}}}}};
  CHECK(median(samples, "rondo", cell) == 3.0);
  CHECK_FALSE(median(samples, "gloo", cell));
  CHECK_FALSE(median(samples, "rondo", Cell{"latency", 2, kLarge}));
}

TEST_CASE("goals are met or missed by the ratio of medians", "[bench]") {
  CHECK_FALSE(judge(where_rondo_takes(9)).missed);
  CHECK_THAT(judge(where_rondo_takes(9)).text, !ContainsSubstring("missed"));
  const Verdict slow = judge(where_rondo_takes(120));
  CHECK(slow.missed);
  CHECK_THAT(slow.text, ContainsSubstring("1.200"));

  // 112 is within 0.9 of the stream's rate but slower than Open MPI.
  CHECK_THAT(judge(where_rondo_takes(111)).text, ContainsSubstring("met"));
  CHECK(judge(where_rondo_takes(111)).missed);
}

TEST_CASE("a rival that was not measured misses nothing", "[bench]") {
  Samples samples = where_rondo_takes(9);
  samples.erase("gloo");
  const Verdict verdict = judge(samples);
  CHECK_FALSE(verdict.missed);
  CHECK_THAT(verdict.text, ContainsSubstring("not measured"));
}
