#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <rondo/size.hpp>
#include <rondo/tuning_rules.hpp>

#include "bench/compare/child.hpp"
#include "bench/program.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

// RONDO_BENCH is the path of the benchmark; rondo-run is found from there.

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

Outcome run_shell(const std::string& command) {
  constexpr double kLongEnough = 120;
  return run_program({{"/bin/sh", "-c", command}, {}}, kLongEnough);
}

Outcome bench(const std::string& arguments) { return run_shell(std::string(RONDO_BENCH) + " " + arguments); }

std::vector<std::string> results_in(const std::string& output) {
  std::vector<std::string> rows;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line[0] != '#') rows.push_back(line);
  }
  return rows;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

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
        "raw loops --loops barrier:0 -n 1", "raw model-loops", "raw model-loops shm --loops barrier:0", "tuning now",
        "compare --peers mpi", "explain latency --measure", "broadcast -n 2 --root 2", "latency", "latency --sizes"}) {
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
