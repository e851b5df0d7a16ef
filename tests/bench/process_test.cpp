#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include <rondo/size.hpp>

#include "bench/program.hpp"
#include "tests/bench/benchmark_runs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

// What rondo-bench reports, and what it refuses.

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

TEST_CASE("results that cannot be written are an error, and said", "[bench][process]") {
  if (::access("/dev/full", W_OK) != 0) return;
  for (const char* arguments : {"all_reduce --sizes 8 -i 5", "explain all_reduce", "--version", "tuning"}) {
    const Outcome outcome = run_shell(std::string("{ ") + RONDO_BENCH + " " + arguments + " >/dev/full; } 2>&1");
    INFO(arguments << ": " << outcome.output);
    CHECK(outcome.status != 0);
    CHECK_THAT(outcome.output, StartsWith("rondo-bench: cannot write to "));
  }
}

TEST_CASE("rondo-bench starts its own ranks and reports", "[bench][process]") {
  const TemporaryDirectory directory;
  const std::string json = directory / "report.json";
  const std::string csv = directory / "report.csv";
  const Outcome outcome =
      bench("all_reduce -n 2 --sizes 8,1K --transport tcp --algorithm ring -i 20 --json " + json + " --csv " + csv);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK(results_in(outcome.output).size() == 2);
  CHECK_THAT(outcome.output, ContainsSubstring("# Out of bounds values : 0 OK"));

  const auto report = nlohmann::json::parse(text_of(json));
  CHECK(report["ranks"] == 2);
  REQUIRE(report["results"].size() == 2);
  CHECK(report["results"][0]["bytes"] == 8);
  CHECK(report["results"][1]["count"] == 256);
  CHECK(report["results"][1]["algorithm"] == "ring");
  CHECK(report["results"][1]["transport"] == "tcp");
  CHECK(report["results"][1]["iterations"] == 20);
  CHECK(report["results"][1]["wrong"] == 0);
  CHECK(report["results"][1]["time_us"]["p50"].get<double>() > 0);
  CHECK_THAT(text_of(csv), ContainsSubstring("all_reduce,"));
}

TEST_CASE("a report names the algorithm and the transport that were chosen", "[bench][process]") {
  const TemporaryDirectory directory;
  const std::string csv = directory / "chosen.csv";
  const auto [transport, row] =
      GENERATE(table<std::string, std::string>({{"auto", "\nbarrier,direct,shm,none,none,-1,0,0,3,"},
                                                {"tcp", "\nbarrier,dissemination,tcp,none,none,-1,0,0,3,"}}));
  const Outcome outcome = bench("barrier -n 2 -i 3 --transport " + transport + " --csv " + csv);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(text_of(csv), ContainsSubstring(row));
}

TEST_CASE("a report names the algorithm that ran, by one's own rules, or in rank order", "[bench][process]") {
  const TemporaryDirectory directory;
  const std::string csv = directory / "chosen.csv";
  const std::string rules = directory / "rules";
  std::ofstream(rules) << "all_reduce any 2-any any any chain whole\n";
  const auto [variable, algorithm] = GENERATE_COPY(
      table<std::string, std::string>({{"RONDO_TUNING_FILE=" + rules, "chain"}, {"RONDO_DETERMINISTIC=1", "chain"}}));
  const Outcome outcome =
      run_shell("env " + variable + " " RONDO_BENCH " all_reduce -n 2 -i 3 --sizes 8 --transport tcp --csv " + csv);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  CHECK_THAT(text_of(csv), ContainsSubstring("\nall_reduce," + algorithm + ",tcp,"));
}

TEST_CASE("a report says what goes without shared memory, why, and by which algorithm", "[bench][process]") {
  const TemporaryDirectory directory;
  const std::string json = directory / "unshared.json";
  // In blocks of 512 bytes, or of 1024: a pair needs half a MiB, four ranks' collectives six, the longest buffers 64.
  const auto [limit, collectives, from] =
      GENERATE(table<std::string, bool, std::size_t>({{"2048", false, 1 << 20}, {"16384", true, 16 << 20}}));
  const Outcome outcome = run_shell(
      "ulimit -f " + limit + "; " RONDO_BENCH " all_reduce -n 4 -i 3 --allocate --sizes 16,1M,16M --json " + json);
  INFO(outcome.output);
  REQUIRE(outcome.status == 0);
  const std::string why = "rank 0 could not make ";
  CHECK_THAT(outcome.output,
             ContainsSubstring("\n# buffers of " + rondo::format_size(from) + " and more are not shared: " + why));
  CHECK((outcome.output.find("\n# collectives by messages: " + why) == std::string::npos) == collectives);
  const auto report = nlohmann::json::parse(text_of(json));
  const auto& unshared = report["unshared"];
  CHECK(unshared["buffers_from"] == from);
  CHECK_THAT(unshared["buffers"].get<std::string>(), ContainsSubstring(" bytes: limit of file sizes (ulimit -f)"));
  CHECK(unshared["collectives"].is_null() == collectives);
  for (const auto& result : report["results"]) {
    const std::string algorithm = result["algorithm"];
    CHECK((algorithm == "direct" || algorithm == "sliced") == collectives);
    CHECK(result["wrong"] == 0);
  }
}

TEST_CASE("every operation gives right results on three ranks", "[bench][process]") {
  const std::string operation =
      GENERATE(as<std::string>(), "latency", "bandwidth", "all_reduce", "reduce --root 2", "broadcast --root 1",
               "scatter --root 2", "gather --root 1", "all_gather", "reduce_scatter", "all_to_all", "barrier");
  const Outcome outcome = bench(operation + " -n 3 --sizes 0,4,1000,100K -i 12 -w 2");
  INFO(operation << "\n" << outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, ContainsSubstring("# Out of bounds values : 0 OK"));
}

TEST_CASE("every collective gives right results in place", "[bench][process]") {
  const std::string operation = GENERATE(as<std::string>(), "all_reduce", "reduce --root 1", "broadcast",
                                         "scatter --root 1", "gather", "all_gather", "reduce_scatter", "all_to_all");
  const Outcome outcome = bench(operation + " --in-place -n 3 --sizes 4,100K -i 12 -w 2");
  INFO(operation << "\n" << outcome.output);
  CHECK(outcome.status == 0);
}

TEST_CASE("every collective gives right results on allocated buffers", "[bench][process]") {
  const std::string operation = GENERATE(as<std::string>(), "all_reduce", "reduce --root 1", "broadcast",
                                         "scatter --root 1", "gather", "all_gather", "reduce_scatter", "all_to_all");
  const std::string in_place = GENERATE(as<std::string>(), "", " --in-place");
  const Outcome outcome = bench(operation + " --allocate -n 3 --sizes 0,4,100K,1M -i 12 -w 2" + in_place);
  INFO(operation << in_place << "\n" << outcome.output);
  CHECK(outcome.status == 0);
}

TEST_CASE("messages of allocated buffers are right", "[bench][process]") {
  const std::string operation = GENERATE(as<std::string>(), "latency", "bandwidth");
  const Outcome outcome = bench(operation + " --allocate -n 3 --sizes 4,100K,1M -i 12 -w 2");
  INFO(operation << "\n" << outcome.output);
  CHECK(outcome.status == 0);
}

TEST_CASE("element types and operators give right results", "[bench][process]") {
  const std::string options = GENERATE(as<std::string>(), "-t int8 -o prod", "-t uint64 -o avg", "-t half",
                                       "-t half -o avg", "-t bfloat16 -o max", "-t double -o prod", "-t complex64",
                                       "-t complex128 -o prod", "-t uint16 -o bxor", "-t int32 -o land");
  const Outcome outcome = bench("all_reduce -n 2 --sizes 1000 -i 3 -w 0 " + options);
  INFO(options << "\n" << outcome.output);
  CHECK(outcome.status == 0);
}

TEST_CASE("bare sockets are measured without rondo", "[bench][process]") {
  const std::string operation = GENERATE(as<std::string>(), "latency", "bandwidth");
  const Outcome outcome = bench("raw " + operation + " --sizes 8,64K -i 5 -w 1");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK(results_in(outcome.output).size() == 2);
}

TEST_CASE("bad usage ends with status 2 and one line", "[bench][process]") {
  for (const auto* arguments :
       {"allreduce", "latency --sizes 12Q", "latency -n 0", "latency -b 1M -e 8", "raw all_reduce",
        "raw latency --transport shm", "raw latency --allocate", "raw loops --loops barrier:0 -n 1", "raw model-loops",
        "raw model-loops shm --loops barrier:0", "tuning now", "compare --peers mpi", "explain latency --measure",
        "broadcast -n 2 --root 2", "latency", "latency --sizes"}) {
    const Outcome outcome = bench(arguments);
    INFO(arguments << "\n" << outcome.output);
    CHECK(outcome.status == 2);
    CHECK(outcome.output.substr(0, 13) == "rondo-bench: ");
  }
}

TEST_CASE("ranks of a job say together what they were asked wrongly", "[bench][process]") {
  const auto launcher = find_companion("rondo-run", {std::filesystem::path(RONDO_BENCH).parent_path() / "../tools"});
  REQUIRE(launcher);
  const Outcome outcome = run_shell(*launcher + " -n 2 " RONDO_BENCH " broadcast --root 2");
  INFO(outcome.output);
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.output, ContainsSubstring("--root 2 is not one of the 2 ranks"));
}

TEST_CASE("the tuning table is printed", "[bench][process]") {
  const Outcome outcome = bench("tuning");
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, ContainsSubstring("all_reduce") && ContainsSubstring("ring"));
}

TEST_CASE("the loops that combine are timed for every type and operator", "[bench][process]") {
  const Outcome outcome = bench("kernels --bytes 64K --all");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  const auto rows = results_in(outcome.output);
  CHECK(rows.size() >= 16 * 5);
  std::istringstream first(rows.at(0));
  std::string instructions, type, redop;
  double memory = 0, share = 0, cache = 0;
  first >> instructions >> type >> redop >> memory >> share >> cache;
  CHECK(type == "bytes");
  CHECK(redop == "band");
  CHECK(memory > 0);
  CHECK(share > 0);
  CHECK(cache > 0);
  CHECK_THAT(bench("kernels --bytes 1K").output, ContainsSubstring("--bytes: got 1K, wanted at least 64K"));
  CHECK_THAT(bench("kernels --bytes q").output, ContainsSubstring("--bytes: got \"q\", wanted a whole number"));
}

TEST_CASE("what ranks that wait cost one that computes is a ratio", "[bench][process]") {
  const Outcome outcome = bench("neighbour -n 3 --seconds 0.02");
  INFO(outcome.output);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.output, ContainsSubstring("\nwhile 2 others wait in recv ") &&
                                 ContainsSubstring("\nwhile 2 others wait in a barrier ") &&
                                 ContainsSubstring(" s, 1.000 of that alone\n"));
}

TEST_CASE("a missing launcher is named", "[bench][process]") {
  const TemporaryDirectory directory;
  const std::filesystem::path folder = directory / "alone";
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(RONDO_BENCH, folder / "rondo-bench");
  const std::string command = "PATH=/nonexistent " + (folder / "rondo-bench").string() + " barrier -n 2";
  const Outcome outcome = run_shell(command);
  CHECK(outcome.status == 3);
  CHECK_THAT(outcome.output,
             ContainsSubstring("-n needs rondo-run, which is neither beside ") && ContainsSubstring(" nor on PATH"));
}

TEST_CASE("a plot is an SVG file where gnuplot is there, and a clear message where not", "[bench][process]") {
  const TemporaryDirectory directory;
  const std::string svg = directory / "plot.svg";
  const Outcome outcome = bench("raw latency --sizes 8,1K,64K -i 5 -w 1 --plot " + svg);
  INFO(outcome.output);
  if (find_on_path("gnuplot")) {
    CHECK(outcome.status == 0);
    CHECK_THAT(text_of(svg), ContainsSubstring("</svg>"));
  } else {
    CHECK(outcome.status == 2);
    CHECK_THAT(outcome.output, ContainsSubstring("needs the program gnuplot"));
  }
}
