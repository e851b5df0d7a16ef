#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "bench/operation.hpp"
#include "bench/table.hpp"
#include "tests/bench/benchmark_runs.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

// The benchmark on memory of devices. RONDO_BENCH is its path.

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

Outcome bench_on_device(const std::string& arguments, const std::string& variables = "") {
  rondo::testing::is_stand_in();  // names it for those that this process starts
  return run_shell(variables + " " + RONDO_BENCH + " " + arguments + " --device cuda");
}

/// The only result of a report.
nlohmann::json result_in(const std::string& json) {
  return nlohmann::json::parse(std::ifstream(json)).at("results").at(0);
}

/// The number behind `text`.
double number_after(const std::string& output, const std::string& text) {
  const auto at = output.find(text);
  REQUIRE(at != std::string::npos);
  return std::stod(output.substr(at + text.size()));
}

}  // namespace

TEST_CASE("every operation gives right results on devices", "[bench][cuda]") {
  const std::string operation =
      GENERATE(as<std::string>(), "latency", "bandwidth", "all_reduce", "reduce --root 2", "broadcast --root 1",
               "scatter --root 2", "gather --root 1", "all_gather", "reduce_scatter", "all_to_all");
  const TemporaryDirectory directory;
  const std::string json = directory / "report.json";
  const Outcome outcome = bench_on_device(operation + " -n 3 --sizes 0,4,100K -i 6 -w 1 -t half --json " + json);
  INFO(operation << "\n" << outcome.output);
  REQUIRE(outcome.status == 0);
  const auto report = nlohmann::json::parse(std::ifstream(json));
  CHECK(report["results"].size() == 3);
  for (const auto& result : report["results"]) {
    CHECK(result["call_us"].get<double>() > 0);
    CHECK(result["enqueue_us"].get<double>() > result["call_us"].get<double>());
  }
  CHECK_THAT(outcome.output, ContainsSubstring("# Out of bounds values : 0 OK"));
}

TEST_CASE("every collective gives right results in place on devices", "[bench][cuda]") {
  const std::string operation = GENERATE(as<std::string>(), "all_reduce", "reduce --root 1", "broadcast",
                                         "scatter --root 1", "gather", "all_gather", "reduce_scatter", "all_to_all");
  const Outcome outcome = bench_on_device(operation + " --in-place -n 3 --sizes 4,100K -i 6 -w 1");
  INFO(operation << "\n" << outcome.output);
  CHECK(outcome.status == 0);
}

TEST_CASE("a report on devices names the algorithm that ran", "[bench][cuda]") {
  const TemporaryDirectory directory;
  const std::string json = directory / "report.json", rules = directory / "rules";
  std::ofstream(rules) << "reduce any 2-any one_host any sliced whole\n";
  const auto algorithm = [&](const std::string& arguments, const std::string& variables = "") {
    const Outcome outcome = bench_on_device(arguments + " -n 2 --sizes 4K -i 1 --json " + json, variables);
    INFO(outcome.output);
    REQUIRE(outcome.status == 0);
    return result_in(json)["algorithm"].get<std::string>();
  };
  CHECK(algorithm("all_reduce") == "leader");
  CHECK(algorithm("reduce --algorithm leader") == "leader");
  CHECK(algorithm("reduce --algorithm direct") == "direct");
  CHECK(algorithm("reduce", "RONDO_TUNING_FILE=" + rules) == "sliced");
  CHECK(algorithm("all_gather") == "leader");
}

TEST_CASE("figures of devices are compared with that of copies", "[bench][cuda]") {
  const TemporaryDirectory directory;
  const std::string json = directory / "report.json";
  const Outcome outcome = bench_on_device("all_reduce -n 2 --sizes 1M -i 5 --json " + json);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.output,
             ContainsSubstring("buffers are memory of devices (") && ContainsSubstring("the clock is the host's") &&
                 ContainsSubstring("     call  enqueue   copy%\n") && ContainsSubstring("# call is what i... (") &&
                 ContainsSubstring("# enqueue is that and wait_on"));
  if (rondo::testing::is_stand_in()) {
    CHECK_THAT(outcome.output, ContainsSubstring("a stand-in for a device: its figures mean nothing"));
  }
  const auto result = result_in(json);
  const auto number = [&](const char* name) { return rondo::bench::short_number(result[name].get<double>()); };
  CHECK_THAT(outcome.output, ContainsSubstring(" " + number("call_us") + " ") &&
                                 ContainsSubstring(" " + number("enqueue_us") + " ") &&
                                 ContainsSubstring(" " + number("copy_percent") + "\n"));
  const double copies = number_after(outcome.output, "# copy% is of ");
  const double wanted = 100 * result["algbw_GBps"].get<double>() * 4 / copies;
  CHECK_THAT(result["copy_percent"].get<double>(), Catch::Matchers::WithinRel(wanted, 0.05));
}

TEST_CASE("the report says what way memory of devices takes", "[bench][cuda][stand-in]") {
  if (!rondo::testing::is_stand_in()) return;
  const auto head_with = [](const std::string& variables) {
    const Outcome outcome = bench_on_device("latency -n 2 --sizes 4 -i 1", variables);
    INFO(outcome.output);
    CHECK(outcome.status == 0);
    return outcome.output;
  };
  CHECK_THAT(head_with("FAKECUDA_DEVICES=1"), ContainsSubstring("\n# memory of devices, shared device: all pairs\n"));
  CHECK_THAT(head_with("FAKECUDA_DEVICES=2"), ContainsSubstring("\n# memory of devices, NVLink: all pairs\n"));
  CHECK_THAT(head_with("FAKECUDA_DEVICES=2 FAKECUDA_NVLINK=0"),
             ContainsSubstring("\n# memory of devices, PCIe: all pairs\n"));
  CHECK_THAT(head_with("RONDO_TRANSPORT=tcp"),
             ContainsSubstring("\n# memory of devices, host: all pairs (not of one "));
  CHECK_THAT(head_with("FAKECUDA_DEVICES=1 FAKECUDA_MAPPABLE=0"),
             ContainsSubstring("\n# memory of devices, host: all pairs (cuIpcOpenMemHandle_v2: got "));
}

TEST_CASE("where the ways differ by pair, so does the report", "[bench][cuda][stand-in]") {
  if (!rondo::testing::is_stand_in()) return;
  const TemporaryDirectory directory;
  const std::string json = directory / "report.json";
  const Outcome outcome =
      bench_on_device("all_gather -n 3 --sizes 4 -i 1 --json " + json, "FAKECUDA_DEVICES=2 FAKECUDA_PEERS=none");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(outcome.output,
             ContainsSubstring("\n# memory of devices, host: 0-1 (device 0 does not reach device 1)\n") &&
                 ContainsSubstring("\n# memory of devices, shared device: 0-2\n") &&
                 ContainsSubstring("host: 1-2 (device 1 does not reach device 0)\n"));
  const auto report = nlohmann::json::parse(std::ifstream(json));
  CHECK(report["device"]["stand_in"] == true);
  CHECK(report["device"]["copy_GBps"] > 0);
  CHECK(report["device_carriers"].at(1).dump() ==
        R"({"long_messages":null,"pairs":[[0,2]],"reason":null,"transport":"shared device"})");
}

TEST_CASE("what it costs to enqueue a call has no waiting for the device in it", "[bench][cuda][stand-in]") {
  if (!rondo::testing::is_stand_in()) return;
  const TemporaryDirectory directory;
  const std::string json = directory / "report.json";
  const Outcome outcome = bench_on_device(
      "all_gather -n 2 --sizes 100K --algorithm direct -w 0 -i 3 --no-check --json " + json, "FAKECUDA_COPY_MS=100");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const auto result = result_in(json);
  CHECK(result["time_us"]["min"].get<double>() > 100e3);
  CHECK(result["enqueue_us"].get<double>() < result["time_us"]["min"].get<double>());
}

TEST_CASE("a message's call has no waiting for the other side in it", "[bench][cuda][stand-in]") {
  if (!rondo::testing::is_stand_in()) return;
  const TemporaryDirectory directory;
  const std::string json = directory / "report.json";
  // The answer lies on a device, from which it is copied before it is sent.
  const Outcome outcome =
      bench_on_device("latency -n 2 --sizes 4 -w 0 -i 3 --no-check --json " + json, "FAKECUDA_COPY_MS=100");
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const auto result = result_in(json);
  CHECK(result["enqueue_us"].get<double>() > 50e3);  // half of a round trip's
  CHECK(result["call_us"].get<double>() < 50e3);
}

TEST_CASE("without a driver the benchmark says why it has no devices", "[bench][cuda]") {
  const Outcome outcome = bench_on_device("all_reduce -n 2", "RONDO_CUDA_LIBRARY=libno-such-driver.so.1");
  CHECK(outcome.status == 3);
  CHECK_THAT(outcome.output,
             ContainsSubstring("rondo-bench: --device cuda: there is no CUDA driver: libno-such-driver"));
  CHECK(bench_on_device("compare", "RONDO_CUDA_LIBRARY=libno-such-driver.so.1").output == outcome.output);
}
