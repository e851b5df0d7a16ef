#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tools/sim_options.hpp"
#include "tools/sim_report.hpp"

using namespace rondo;
using namespace rondo::tools;
using Catch::Matchers::ContainsSubstring;

namespace {

std::optional<SimOptions> parse(std::initializer_list<const char*> words, int& status) {
  std::vector<const char*> arguments{"rondo-sim"};
  arguments.insert(arguments.end(), words);
  return parse_sim_options(static_cast<int>(arguments.size()), arguments.data(), status);
}

int status_of(std::initializer_list<const char*> words) {
  int status = -1;
  CHECK_FALSE(parse(words, status).has_value());
  return status;
}

}  // namespace

TEST_CASE("rondo-sim reads sizes, times with units and algorithms", "[tools][sim]") {
  int status = -1;
  const auto options = parse({"all_reduce", "--ranks", "64", "--size", "2M", "--algorithm", "ring,tree", "--latency",
                              "1.5us", "--gap-per-byte", "0.04ns", "--chunk", "64K", "--root", "3"},
                             status);
  REQUIRE(options.has_value());
  CHECK(options->collective == Collective::all_reduce);
  CHECK(options->ranks == 64);
  CHECK(options->bytes == std::size_t{2} << 20U);
  CHECK(options->algorithms == std::vector{Algorithm::ring, Algorithm::tree});
  CHECK(options->model.latency == 1500000);
  CHECK(options->model.gap_per_byte == 40.0);
  CHECK(options->model.overhead == simulation::kMicrosecond);
  CHECK(options->chunk_bytes == std::size_t{65536});
}

TEST_CASE("rondo-sim gives every pair of an all_to_all the same", "[tools][sim]") {
  int status = -1;
  CHECK(parse({"all_to_all", "--ranks", "7", "--size", "100"}, status)->bytes == 98);
  CHECK(parse({"all_to_all", "--ranks", "7", "--size", "6"}, status)->bytes == 0);
}

TEST_CASE("rondo-sim takes all algorithms that a collective has", "[tools][sim]") {
  int status = -1;
  const auto all = parse({"all_reduce"}, status);
  REQUIRE(all.has_value());
  CHECK(all->algorithms.size() == 4);
  const auto ordered = parse({"all_reduce", "--ordered"}, status);
  REQUIRE(ordered.has_value());
  CHECK(ordered->algorithms.size() == 3);
}

TEST_CASE("rondo-sim ends with status 2 on bad input, 0 on help", "[tools][sim]") {
  CHECK(status_of({"--help"}) == 0);
  CHECK(status_of({}) == 2);
  CHECK(status_of({"all_reduces"}) == 2);
  CHECK(status_of({"all_reduce", "--size", "12Q"}) == 2);
  CHECK(status_of({"all_reduce", "--ranks", "0"}) == 2);
  CHECK(status_of({"all_reduce", "--latency", "5"}) == 2);
  CHECK(status_of({"broadcast", "--ranks", "4", "--root", "4"}) == 2);
  CHECK(status_of({"broadcast", "--algorithm", "bruck"}) == 2);
  CHECK(status_of({"all_reduce", "--ordered", "--algorithm", "ring"}) == 2);
}

TEST_CASE("rondo-sim reports a candidate as text and as JSON", "[tools][sim]") {
  int status = -1;
  const auto options = parse({"barrier", "--ranks", "8"}, status);
  REQUIRE(options.has_value());
  SimResult result;
  result.algorithm = Algorithm::dissemination;
  result.is_simulated = true;
  result.run = {21 * simulation::kMicrosecond, 3, 3, 2, 24};
  result.stated = result.run;
  const std::string text = sim_table(*options, {result});
  CHECK_THAT(text, ContainsSubstring("dissemination"));
  CHECK_THAT(text, ContainsSubstring("  21.00 us       21.00 us"));
  result.stated.at_most = true;
  CHECK_THAT(sim_table(*options, {result}), ContainsSubstring("  21.00 us    <= 21.00 us"));

  const auto report = nlohmann::json::parse(sim_json(*options, {result}));
  CHECK(report["op"] == "barrier");
  CHECK(report["ranks"] == 8);
  CHECK(report["results"][0]["time_us"] == 21.0);
  CHECK(report["results"][0]["messages"] == 24);
  CHECK(report["results"][0]["formula_is_bound"] == true);
}
