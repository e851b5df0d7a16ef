#include "bench/compare/comparison.hpp"

#include <sstream>

#include <nlohmann/json.hpp>

#include "bench/compare/compare_command.hpp"
#include "bench/compare/comparison_report.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

const Loop kSmall{Operation::all_reduce, 8, rondo::Algorithm::automatic, 0};
const Loop kLarge{Operation::all_reduce, 1 << 20, rondo::Algorithm::automatic, 0};

Entry entry_of(const std::string& name, const std::string& variant, std::map<Loop, std::vector<double>> times,
               std::map<Loop, std::string> troubles = {}) {
  Entry entry;
  entry.contender = {name, variant, Path::tcp, {{name + "-program"}, {}}};
  Series& series = entry.by_ranks[4] = {{"tcp", name + " 1.2"}, {}, std::move(troubles)};
  for (const auto& [loop, all] : times) {
    for (const double time : all) series.timings[loop].push_back({time});
  }
  return entry;
}

std::vector<Row> rows_of(const Comparison& comparison) {
  return compare(comparison.entries, comparison.plan, comparison.distance);
}

/// all_reduce of 4 ranks over TCP, two sizes.
Comparison example() {
  Comparison comparison;
  comparison.plan.paths = {Path::tcp};
  comparison.plan.operations = {Operation::all_reduce};
  comparison.plan.sizes = {8, 1 << 20};
  comparison.plan.ranks = {4};
  comparison.cores = 2;
  comparison.entries = {
      entry_of("rondo", "default", {{kSmall, {4, 90, 5}}, {kLarge, {200}}}),
      entry_of("openmpi", "default", {{kSmall, {20}}, {kLarge, {100}}}),
      entry_of("openmpi", "yield", {{kSmall, {10}}, {kLarge, {120}}}),
      entry_of("gloo", "default", {{kLarge, {1000}}}, {{kSmall, "over 3 s"}}),
      entry_of("sockets", "bare", {{kSmall, {1}}}),
  };
  comparison.absent = {{"mpich", "it was not found"}};
  comparison.rows = rows_of(comparison);
  return comparison;
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_compare_settings(arguments);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("medians over the rounds, the best variant of each library, and the ratio to the best", "[bench]") {
  const auto rows = example().rows;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].rondo.microseconds == 5.0);
  CHECK(rows[0].others.at("openmpi").microseconds == 10.0);
  CHECK(rows[0].others.at("openmpi").variant == "yield");
  CHECK(rows[1].others.at("openmpi").variant == "default");
  CHECK(rows[0].best == "openmpi");
  CHECK(rows[0].ratio == 0.5);
  CHECK(rows[1].ratio == 2.0);
}

TEST_CASE("bare sockets are shown, not compared with", "[bench]") {
  const auto rows = example().rows;
  CHECK(rows[0].others.at("sockets").microseconds == 1.0);
  CHECK(rows[0].best == "openmpi");
}

TEST_CASE("a variant in trouble does not hide one that was measured", "[bench]") {
  Comparison comparison = example();
  comparison.entries.push_back(entry_of("gloo", "other", {{kSmall, {7}}}));
  CHECK(rows_of(comparison)[0].others.at("gloo").microseconds == 7.0);
  // What failed in one round failed.
  comparison.entries.back().by_ranks[4].troubles[kSmall] = "exit status 1";
  CHECK_FALSE(rows_of(comparison)[0].others.at("gloo").microseconds);
}

TEST_CASE("geometric means are over the cells that both have", "[bench]") {
  const auto rows = example().rows;
  CHECK(geometric_mean(rows, Path::tcp)->ratio == Catch::Approx(1));
  CHECK(geometric_mean(rows, Path::tcp)->cells == 2);
  CHECK(geometric_mean(rows, Path::tcp, "gloo")->ratio == Catch::Approx(0.2));
  CHECK(geometric_mean(rows, Path::tcp, "gloo")->cells == 1);
  CHECK_FALSE(geometric_mean(rows, Path::shm));
  CHECK_FALSE(geometric_mean(rows, Path::tcp, "mpich"));
}

TEST_CASE("cells above the limit are named, also those that rondo has no time for", "[bench]") {
  Comparison comparison = example();
  REQUIRE(rows_above(comparison.rows, 1).size() == 1);
  CHECK(describe(rows_above(comparison.rows, 1)[0]) == "all_reduce 1M, 4 ranks, tcp");
  CHECK(rows_above(comparison.rows, 2).empty());
  comparison.entries[0].by_ranks[4].troubles[kSmall] = "over 3 s";
  CHECK(rows_above(rows_of(comparison), 2).size() == 1);
}

TEST_CASE("of libraries that were named each must have a time, of all there are one", "[bench]") {
  using Names = std::vector<std::string>;
  Comparison comparison = example();
  comparison.plan.peers = {"openmpi", "mpich", "sockets"};
  CHECK(peers_lacking(comparison.rows, comparison.plan).empty());
  comparison.plan.peers_named = true;
  CHECK(peers_lacking(comparison.rows, comparison.plan) == Names{"mpich"});
  comparison.plan.peers = {"sockets"};
  CHECK(peers_lacking(comparison.rows, comparison.plan).empty());
  // In every cell it failed.
  comparison.plan.peers = {"openmpi", "mpich"};
  comparison.plan.peers_named = false;
  for (Row& row : comparison.rows) row.others["openmpi"].microseconds.reset();
  CHECK(peers_lacking(comparison.rows, comparison.plan) == Names{"openmpi", "mpich"});
}

TEST_CASE("rounds with cores apart count only where there are no others", "[bench]") {
  const double near = 0.05, far = 0.25;
  CoreDistance distance([=] { return near; });
  distance.settle();
  Comparison comparison = example();
  const auto compare_anew = [&] { comparison.rows = compare(comparison.entries, comparison.plan, distance); };
  auto& timings = comparison.entries[0].by_ranks[4].timings;
  timings[kSmall].push_back({400, far});
  timings[kLarge].push_back({800, far});
  compare_anew();
  CHECK(comparison.rows[0].rondo.microseconds == 5);
  CHECK_FALSE(comparison.rows[0].rondo.apart);
  CHECK_THAT(comparison_table(comparison), !ContainsSubstring("apart"));

  timings[kSmall] = {{400, far}};
  compare_anew();
  CHECK(comparison.rows[0].rondo.microseconds == 400);
  CHECK(comparison.rows[0].rondo.apart);
  CHECK_THAT(comparison_table(comparison),
             ContainsSubstring("# in 1 cells one side was measured with cores near each other, the other apart alone"));

  for (const Loop& loop : {kSmall, kLarge}) timings[loop].insert(timings[loop].end(), {{700, near}, {800, near}});
  compare_anew();
  CHECK(comparison.rows[0].rondo.rounds == std::vector<double>{700, 800});
  CHECK(comparison.rows[1].rondo.rounds == std::vector<double>{200, 700, 800});
}

TEST_CASE("the table names what is cut, failed or left out", "[bench]") {
  const std::string table = comparison_table(example());
  CHECK_THAT(table, ContainsSubstring("rondo 1.2, transport tcp"));
  CHECK_THAT(table, ContainsSubstring("openmpi (yield)"));
  CHECK_THAT(table, ContainsSubstring(">3 s"));
  CHECK_THAT(table, ContainsSubstring("gloo (default) on tcp, 4 ranks: over 3 s: all_reduce:8"));
  CHECK_THAT(table, ContainsSubstring("mpich is left out: it was not found"));
  CHECK_THAT(table, ContainsSubstring("tcp: geometric mean of rondo's time to that of gloo: 0.200 (1 cells)"));
  std::istringstream lines(table);
  int results = 0;
  for (std::string line; std::getline(lines, line);) results += line[0] == '#' ? 0 : 1;
  CHECK(results == 2);
}

TEST_CASE("the comparison's JSON has every cell with all libraries", "[bench]") {
  std::ostringstream text;
  write_json(text, example());
  const auto report = nlohmann::json::parse(text.str());
  CHECK(report["cores"] == 2);
  REQUIRE(report["cells"].size() == 2);
  const auto& cell = report["cells"][0];
  CHECK(cell["path"] == "tcp");
  CHECK(cell["op"] == "all_reduce");
  CHECK(cell["ranks"] == 4);
  CHECK(cell["bytes"] == 8);
  CHECK(cell["rondo"]["us"] == 5.0);
  CHECK(cell["rondo"]["rounds_us"] == std::vector<double>{4, 90, 5});
  CHECK(cell["peers"]["openmpi"]["variant"] == "yield");
  CHECK(cell["peers"]["gloo"]["us"].is_null());
  CHECK(cell["peers"]["gloo"]["trouble"] == "over 3 s");
  CHECK(cell["best"] == "openmpi");
  CHECK(cell["ratio"] == 0.5);
  CHECK(report["absent"][0]["name"] == "mpich");
  CHECK(report["contenders"][0]["transport"] == "tcp");
  CHECK(report["geometric_means"][0]["against"] == "best");
}

TEST_CASE("a comparison becomes a table for a page", "[bench]") {
  Comparison comparison = example();
  comparison.rows[0].ratio = 0.0123;
  CHECK(comparison_markdown(comparison) ==
        "| path | operation | ranks | 8 | 1M |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| tcp | all_reduce | 4 | 0.012 (5.00) a | 2.00 (200.00) b |\n"
        "\n"
        "a: openmpi (yield), b: openmpi\n");
}

TEST_CASE("the plot has a panel for each path and number of ranks", "[bench]") {
  const std::string script = comparison_plot("a.svg", example());
  CHECK_THAT(script, ContainsSubstring("set title 'tcp, 4 ranks'"));
  CHECK_THAT(script, ContainsSubstring("8 0.5\n1048576 2\n"));
}

TEST_CASE("a part of the comparison can be asked for", "[bench]") {
  const CompareSettings all = parse_compare_settings({});
  CHECK(all.plan.operations.size() == 10);
  CHECK(all.plan.ranks == std::vector{2, 4, 8});
  CHECK(loops_for(all.plan, 2).size() == 46);
  CHECK(loops_for(all.plan, 4).size() == 41);  // no latency
  const CompareSettings part = parse_compare_settings({"--operations", "latency,barrier", "--sizes", "64K,8", "--ranks",
                                                       "2", "--paths", "tcp", "--peers", "gloo", "--rounds", "3",
                                                       "--seconds", "0.5", "--limit", "2", "--fail-above", "1"});
  CHECK(part.plan.paths == std::vector{Path::tcp});
  CHECK(parse_compare_settings({"--paths", "default"}).plan.paths == std::vector{Path::untold});
  CHECK(loops_for(part.plan, 2).size() == 3);
  CHECK(part.plan.sizes.front() == 8);
  CHECK(part.plan.limits.seconds == 2);
  CHECK(part.fail_above == 1.0);
  for (const char* limit : {"nan", "inf", "0", "-1", "some"}) {
    CHECK_THROWS_AS(parse_compare_settings({"--fail-above", limit}), UsageError);
  }
}

TEST_CASE("on devices what was not asked for otherwise is of few loops, up to long ones", "[bench]") {
  const CompareSettings few = parse_compare_settings({"--device", "cuda"});
  CHECK(few.plan.place == BufferPlace::device);
  CHECK(few.plan.operations == std::vector{Operation::latency, Operation::all_reduce});
  CHECK(few.plan.sizes.back() == std::size_t{256} << 20);
  CHECK(few.plan.paths == std::vector{Path::untold});
  CHECK(few.plan.limits.seconds == 60);
  std::vector<std::string> everybody = known_peers();  // of whom the report says who is left out
  everybody.emplace_back("torch");
  CHECK(few.plan.peers == everybody);
  const CompareSettings asked = parse_compare_settings({"--device", "cuda", "--operations", "gather", "--sizes", "8",
                                                        "--paths", "tcp", "--limit", "2", "--peers", "gloo"});
  CHECK(loops_for(asked.plan, 2) == std::vector{Loop{Operation::gather, 8}});
  CHECK(asked.plan.paths == std::vector{Path::tcp});
  CHECK(asked.plan.limits.seconds == 2);
  CHECK(parse_compare_settings({"--device", "cpu"}).plan.operations.size() == 10);
  CHECK(parse_compare_settings({"--allocate"}).plan.place == BufferPlace::allocated);
}

TEST_CASE("table, JSON and plot say which devices and which driver", "[bench]") {
  Comparison comparison = example();
  std::ostringstream on_host;
  write_json(on_host, comparison);
  CHECK(nlohmann::json::parse(on_host.str())["device"].is_null());
  CHECK_THAT(comparison_table(comparison), !ContainsSubstring("memory of devices"));

  comparison.devices = {"some GPU and 1 more", "libcuda.so.1, of CUDA 13.0", false};
  const std::string line =
      "\n# buffers are memory of devices: some GPU and 1 more; driver libcuda.so.1, of CUDA 13.0\n";
  CHECK_THAT(comparison_table(comparison), ContainsSubstring(line) && !ContainsSubstring("stand-in"));
  CHECK_THAT(comparison_plot("a.svg", comparison), ContainsSubstring("faster), memory of some GPU and 1 more'\n"));
  comparison.devices->stand_in = true;
  CHECK_THAT(comparison_table(comparison), ContainsSubstring(line + "# this is a stand-in for a device: its figures"));
  std::ostringstream text;
  write_json(text, comparison);
  CHECK(nlohmann::json::parse(text.str())["device"].dump() ==
        R"({"driver":"libcuda.so.1, of CUDA 13.0","name":"some GPU and 1 more","stand_in":true})");
}

TEST_CASE("a comparison that cannot be is refused", "[bench]") {
  CHECK_THAT(refusal({"--operations", "allreduce"}), ContainsSubstring("unknown operation 'allreduce'"));
  CHECK_THAT(refusal({"--operations", "latency", "--ranks", "4"}), ContainsSubstring("nothing to measure"));
  CHECK_THAT(refusal({"--paths", "udp"}), ContainsSubstring("--paths: got 'udp', wanted shm, tcp, default"));
  CHECK_THAT(refusal({"--ranks", "1"}), ContainsSubstring("--ranks: got 1, wanted at least 2"));
  CHECK_THAT(refusal({"--sizes", "12Q"}), ContainsSubstring("12Q"));
  CHECK_THAT(refusal({"--rounds", "0"}), ContainsSubstring("--rounds"));
  const std::string cuda = "cuda", device = "--device";
  CHECK(refusal({device, "gpu"}) == "unknown device 'gpu'; known: cpu, cuda");
  CHECK(refusal({device, cuda, "--peers", "gloo,openmpi"}) ==
        "--peers: got 'openmpi', with --device cuda wanted gloo, torch");
  CHECK_THAT(refusal({device, cuda, "--allocate"}), ContainsSubstring("--allocate gives memory of the host"));
  CHECK_THAT(refusal({device, cuda, "--operations", "barrier"}), ContainsSubstring("not barrier"));
  CHECK_THROWS_WITH(parse_compare_settings({"--help"}), ContainsSubstring("What is timed"));
}
