#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <rondo/tuning_rules.hpp>

#include "tests/bench/benchmark_runs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

// What rondo-bench makes of measurements: comparisons, rules, and reasons for a choice.

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A comparison, and its report; none where it could not be run.
struct Compared {
  explicit Compared(const std::string& options) : outcome(bench("compare " + options + " --json " + json)) {
    if (outcome.status == 0) report = nlohmann::json::parse(text_of(json));
  }
  const TemporaryDirectory directory;
  const std::string json = directory / "compare.json";
  const Outcome outcome;
  nlohmann::json report;
};

}  // namespace

TEST_CASE("rondo is compared with what is there", "[bench][process]") {
  const Compared compared(
      "--operations latency,all_reduce,barrier --sizes 8 --ranks 2 --paths tcp --peers sockets --rounds 2 "
      "--seconds 0.005 --fail-above 1e9");
  INFO(compared.outcome.output);
  REQUIRE(compared.outcome.status == 0);
  CHECK_THAT(compared.outcome.output, ContainsSubstring("compared with no library: sockets not counted"));
  const auto& report = compared.report;
  CHECK(report["cells"].size() == 3);
  CHECK(report["contenders"][0]["transport"] == "tcp");
  CHECK(report["cells"][0]["peers"]["sockets"]["us"].get<double>() > 0);
  CHECK(report["cells"][2]["rondo"]["us"].get<double>() > 0);
}

TEST_CASE("bare sockets are right in every operation", "[bench][process]") {
  // Short, by way of the root; not as long for each rank; in chunks.
  const Compared compared(
      "--operations latency,bandwidth,all_reduce,reduce,broadcast,scatter,gather,all_gather,reduce_scatter,all_to_all,"
      "barrier --sizes 8,100K,2M --ranks 2,3 --paths tcp --peers sockets --rounds 1 --seconds 0.001");
  INFO(compared.outcome.output);
  REQUIRE(compared.outcome.status == 0);
  CHECK(compared.report["cells"].size() == 2 * (1 + 3 * 8) + 3 * 2);
  for (const auto& cell : compared.report["cells"]) {
    INFO(cell.dump());
    REQUIRE(cell["peers"].contains("sockets"));
    CHECK(cell["peers"]["sockets"]["us"].get<double>() > 0);
    CHECK(cell["ratio"].is_null());
  }
}

TEST_CASE("bare memory is right in all that it has a form of", "[bench][process]") {
  const Compared compared("--sizes 8,1K,64K --ranks 2,3 --paths shm --peers memory --rounds 1 --seconds 0.001");
  INFO(compared.outcome.output);
  REQUIRE(compared.outcome.status == 0);
  std::size_t measured = 0;
  for (const auto& cell : compared.report["cells"]) {
    INFO(cell.dump());
    if (!cell["peers"].contains("memory")) continue;
    CHECK(cell["peers"]["memory"]["us"].get<double>() > 0);
    CHECK(cell["ratio"].is_null());
    ++measured;
  }
  // With 2 and 3 ranks a barrier, a short sum, and short and long ones of five that move data; and messages.
  CHECK(measured == 2 * (1 + 1 + 2 * 5) + 2);
}

TEST_CASE("the model says what it can, and is no library to be better than", "[bench][process]") {
  const Compared compared(
      "--operations latency,all_reduce,broadcast --sizes 8,1M --ranks 2,4 --peers model --rounds 1 --seconds 0.001 "
      "--fail-above 1e9");
  INFO(compared.outcome.output);
  REQUIRE(compared.outcome.status == 0);
  CHECK_THAT(compared.outcome.output, ContainsSubstring("compared with no library: model not counted"));
  CHECK(compared.report["cells"].size() == 2 * (2 + 2 * 4));
  for (const auto& cell : compared.report["cells"]) {
    INFO(cell.dump());
    CHECK(cell["ratio"].is_null());
    CHECK(cell["peers"].contains("model") == (cell["op"] != "broadcast"));
    if (cell["peers"].contains("model")) CHECK(cell["peers"]["model"]["us"].get<double>() > 0);
  }
}

TEST_CASE("a comparison in which rondo was not measured fails", "[bench][process]") {
  const Outcome outcome = bench(
      "compare --operations barrier --ranks 2 --paths tcp --peers sockets --rounds 1 --seconds 0.05 --limit 0.001 "
      "--fail-above 1e9");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, ContainsSubstring("\n# above 1e+09: barrier, 2 ranks, tcp: rondo over 0.001 s\n"));
}

TEST_CASE("a comparison with a library that gave nothing fails", "[bench][process]") {
  const Outcome outcome = bench(
      "compare --operations barrier --ranks 2 --paths shm --peers gloo,memory --rounds 1 --seconds 0.001 "
      "--fail-above 1e9");
  INFO(outcome.output);
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.output, ContainsSubstring("\n# gloo gave no cell to compare with\n") &&
                                 !ContainsSubstring("# no cell is above") && !ContainsSubstring("memory gave"));
}

TEST_CASE("what is measured becomes rules", "[bench][process]") {
  const TemporaryDirectory directory;
  const std::string json = directory / "tuning.json";
  const std::string table = directory / "tuning.rules";
  const std::string measure = "tune --operations barrier,scatter --ranks 2 --sizes 8 --paths tcp --rounds 1 ";
  const Outcome outcome = bench(measure + "--seconds 0.005 --code --table " + table + " --json " + json);
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  const auto report = nlohmann::json::parse(text_of(json));
  REQUIRE(report["measured"].size() == 2);
  CHECK(report["measured"][0]["collective"] == "barrier");
  const auto& candidates = report["measured"][0]["candidates"];
  CHECK(candidates.size() == 3);
  const auto best = std::min_element(candidates.begin(), candidates.end(), [](const auto& one, const auto& other) {
    return one["us"].template get<double>() < other["us"].template get<double>();
  });
  const auto algorithm = (*best)["algorithm"].get<std::string>();
  CHECK_THAT(outcome.output, ContainsSubstring("{C::barrier, kAnyBytes, 2, 2, Crowd::") &&
                                 ContainsSubstring(fmt::format("{{{}, 0}}}},", algorithm)));
  const Outcome again = bench("tune --code --from " + json);
  INFO(again.output);
  CHECK(again.status == 0);
  CHECK(again.output == outcome.output.substr(outcome.output.size() - again.output.size()));
  const auto rules = rondo::read_tuning_rules(table);
  REQUIRE(rules.size() == 2);
  CHECK(to_string(rules[1].choice.algorithm) == algorithm);
  CHECK_THAT(run_shell("RONDO_TUNING_FILE=" + table + " " RONDO_BENCH " tuning").output,
             ContainsSubstring("# first those of " + table));
}

TEST_CASE("a choice is explained, and its alternatives measured", "[bench][process]") {
  const Outcome outcome =
      bench("--explain scatter --size 4K --ranks 2 --path tcp --measure --rounds 1 --seconds 0.005");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, ContainsSubstring("scatter of 4K: 2 ranks") && ContainsSubstring("why: rule "));
  for (const std::string& row : results_in(outcome.output)) {
    if (row.substr(0, 5) == "tree " || row.substr(0, 7) == "linear ") CHECK(row.back() != '-');
  }
}
