#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "bench/compare/child.hpp"
#include "bench/program.hpp"
#include "runtime/cores.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skipped.hpp"
#include "tests/support/temporary_directory.hpp"

// RONDO_BENCH is the path of the benchmark; the loops on other libraries are found from there.

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A comparison of barriers of 2 ranks, each library as it comes.
Outcome compare_barriers(const std::string& limit) {
  constexpr double kLongEnough = 60;
  return run_program({{RONDO_BENCH, "compare", "--paths", "default", "--operations", "barrier", "--ranks", "2",
                       "--rounds", "1", "--seconds", "0.001", "--fail-above", limit},
                      {}},
                     kLongEnough);
}

bool contains(const Outcome& outcome, const std::string& text) {
  return outcome.output.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("every operation's loop gives right results on every library that was built", "[bench][process]") {
  constexpr double kLongEnough = 120;
  const Outcome outcome = run_program(
      {{RONDO_BENCH, "compare", "--ranks", "2", "--sizes", "8,100K", "--rounds", "1", "--seconds", "0.001"}, {}},
      kLongEnough);
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, !ContainsSubstring("failed") && !ContainsSubstring("wrong elements"));
}

TEST_CASE("every operation's loop gives right results on buffers of devices", "[bench][process][cuda]") {
  if (const std::string why = rondo::testing::why_no_driver(); !why.empty()) {
    rondo::testing::skipped(why);
    return;
  }
  constexpr double kLongEnough = 120;
  const TemporaryDirectory directory;
  const std::string json = directory / "devices.json";
  const std::string operations =
      "latency,bandwidth,all_reduce,reduce,broadcast,scatter,gather,all_gather,reduce_scatter,all_to_all";
  const Outcome outcome =
      run_program({{RONDO_BENCH, "compare", "--device", "cuda", "--operations", operations, "--ranks", "2,3", "--sizes",
                    "8,100K", "--rounds", "1", "--seconds", "0.001", "--json", json},
                   {}},
                  kLongEnough);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.output, !ContainsSubstring("failed") && !ContainsSubstring("wrong elements"));
  CHECK_THAT(outcome.output, ContainsSubstring("\n# buffers are memory of devices: ") &&
                                 ContainsSubstring("\n# rondo on default: rondo ") &&
                                 ContainsSubstring(", memory of devices: ") &&
                                 ContainsSubstring("\n# openmpi is left out: its loops have no buffers in the memory"));
  const bool has_gloo = !contains(outcome, "# gloo is left out");
  if (has_gloo) CHECK_THAT(outcome.output, ContainsSubstring("\n# gloo on default: Gloo, memory of devices: copied "));
  const nlohmann::json report = nlohmann::json::parse(std::ifstream(json));
  CHECK(report["device"]["stand_in"] == rondo::testing::is_stand_in());
  CHECK(report["cells"].size() == 2 * 10 + 2 * 8);
  for (const auto& cell : report["cells"]) CHECK(cell["ratio"].is_number() == has_gloo);
}

TEST_CASE("a comparison fails where rondo's time is more than so many times another's", "[bench][process]") {
  const Outcome above = compare_barriers("1e-9");
  INFO(above.output);
  if (contains(above, "default: no cell was measured on both")) {
    rondo::testing::skipped("no other library was found at build time");
    return;
  }
  CHECK(above.status == 1);
  CHECK_THAT(above.output, ContainsSubstring("\n# above 1e-09: barrier, 2 ranks, default: "));
  const Outcome below = compare_barriers("1e9");
  INFO(below.output);
  CHECK(below.status == 0);
  CHECK_THAT(below.output, ContainsSubstring("\n# no cell is above 1e+09\n"));
}

TEST_CASE("on the default path every library takes its own", "[bench][process]") {
  const Outcome outcome = compare_barriers("1e9");
  INFO(outcome.output);
  CHECK_THAT(outcome.output,
             ContainsSubstring("\n# rondo on default: rondo ") && ContainsSubstring(", transport shm\n"));
  if (!contains(outcome, "# gloo is left out")) {
    CHECK_THAT(outcome.output, ContainsSubstring("\n# gloo on default: Gloo, transport tcp\n"));
  }
}

TEST_CASE("with few and with many ranks every library starts in each of its configurations", "[bench][process]") {
  constexpr double kLongEnough = 60;
  const TemporaryDirectory directory;
  const std::string json = directory / "all.json", svg = directory / "all.svg";
  const bool plots = find_on_path("gnuplot").has_value();
  const std::string ranks = std::to_string(rondo::detail::usable_cores() + 1);
  Command compare{{RONDO_BENCH, "compare", "--paths", "shm,tcp,default", "--operations", "all_reduce", "--ranks",
                   "2," + ranks, "--sizes", "8", "--rounds", "1", "--seconds", "0.001", "--json", json},
                  {}};
  if (plots) compare.words.insert(compare.words.end(), {"--plot", svg});
  const Outcome outcome = run_program(compare, kLongEnough);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);

  const nlohmann::json report = nlohmann::json::parse(std::ifstream(json));
  for (const auto& contender : report["contenders"]) {
    const auto name = contender["name"].get<std::string>(), variant = contender["variant"].get<std::string>();
    const auto path = contender["path"].get<std::string>();
    CAPTURE(name, variant, path);
    CHECK_THAT(outcome.output, ContainsSubstring("# " + name + " (" + variant + ") on " + path + ": "));
    // What it says of itself once it has started.
    CHECK_FALSE(contender["library"].get<std::string>().empty());
    CHECK_THAT(outcome.output, !ContainsSubstring("# " + name + " (" + variant + ") on " + path + ", "));
  }
  if (!plots) return;
  std::ifstream drawn(svg);
  CHECK_THAT(std::string(std::istreambuf_iterator<char>(drawn), {}),
             ContainsSubstring("shm, " + ranks + " ranks") && ContainsSubstring("</svg>"));
}
