#include "bench/report.hpp"

#include <algorithm>
#include <sstream>

#include <nlohmann/json.hpp>

#include "bench/plot.hpp"
#include "bench/table.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

Result example() {
  Result result;
  result.operation = Operation::all_reduce;
  result.algorithm = "ring";
  result.transport = "tcp";
  result.type = "float";
  result.reduce = "sum";
  result.bytes = 1 << 20;
  result.count = 1 << 18;
  take({{0.001, 0.002, 0.003, 0.002}, 0}, 4, true, result);
  return result;
}

std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("times are in microseconds and bandwidths in 10^9 bytes a second of the mean", "[bench]") {
  const Result result = example();
  CHECK(result.iterations == 4);
  CHECK(result.time_us.mean == Catch::Approx(2000));
  CHECK(result.time_us.max == Catch::Approx(3000));
  CHECK(result.algbw_GBps == Catch::Approx(1048576 / 2000e-6 / 1e9));
  CHECK(result.busbw_GBps == Catch::Approx(result.algbw_GBps * 1.5));
}

TEST_CASE("the JSON report has the documented names, in their order", "[bench]") {
  std::ostringstream text;
  Settings settings;
  settings.in_place = true;
  settings.chunk_bytes = 4096;
  write_json(text, "1.2.3", 4, settings,
             {{{"shm", "", {{0, 1}}, "by process_vm_readv"}, {"tcp", "another host", {{0, 2}, {1, 2}}}},
              {{"PCIe", "", {{0, 2}}}},
              {"no memory", "none either", 4096}},
             DeviceFigures{"A100", false, 1024, 1555.5}, {example(), example()});
  const auto report = nlohmann::ordered_json::parse(text.str());
  CHECK(keys(report) == std::vector<std::string>{"version", "ranks", "settings", "carriers", "device",
                                                 "device_carriers", "unshared", "results"});
  CHECK(report["version"] == "1.2.3");
  CHECK(report["ranks"] == 4);
  CHECK(report["settings"].dump() ==
        R"({"in_place":true,"allocate":false,"chunk_bytes":4096,"window":64,"check":true})");
  CHECK(report["carriers"].dump() ==
        R"([{"transport":"shm","reason":null,"long_messages":"by process_vm_readv","pairs":[[0,1]]},)"
        R"({"transport":"tcp","reason":"another host","long_messages":null,"pairs":[[0,2],[1,2]]}])");
  CHECK(report["device"].dump() == R"({"name":"A100","stand_in":false,"copy_bytes":1024,"copy_GBps":1555.5})");
  CHECK(report["device_carriers"].dump() ==
        R"([{"transport":"PCIe","reason":null,"long_messages":null,"pairs":[[0,2]]}])");
  CHECK(report["unshared"].dump() == R"({"collectives":"no memory","buffers":"none either","buffers_from":4096})");
  REQUIRE(report["results"].size() == 2);

  const auto& result = report["results"][0];
  CHECK(keys(result) == std::vector<std::string>{"op", "algorithm", "transport", "type", "redop", "root", "bytes",
                                                 "count", "iterations", "time_us", "algbw_GBps", "busbw_GBps", "wrong",
                                                 "call_us", "enqueue_us", "copy_percent"});
  CHECK(keys(result["time_us"]) == std::vector<std::string>{"mean", "min", "p50", "p99", "max"});
  CHECK(result["op"] == "all_reduce");
  CHECK(result["algorithm"] == "ring");
  CHECK(result["transport"] == "tcp");
  CHECK(result["root"] == -1);
  CHECK(result["bytes"] == 1048576);
  CHECK(result["wrong"] == 0);
}

TEST_CASE("what carries which pair is said in a line each, and nothing where all share memory", "[bench]") {
  const Carrier shared{"shm", "", {{0, 1}}};
  const Carrier apart{"tcp", "another host", {{0, 2}, {1, 2}}};
  CHECK(carrier_lines({}).empty());
  CHECK(carrier_lines({shared}).empty());
  CHECK(carrier_lines({apart}) == "# tcp: all pairs (another host)\n");
  CHECK(carrier_lines({shared, apart}) == "# shm: 0-1\n# tcp: 0-2 1-2 (another host)\n");
  const Carrier read{"shm", "", {{0, 1}}, "by process_vm_readv"};
  CHECK(carrier_lines({read}) == "# shm: all pairs, long messages by process_vm_readv\n");
  CHECK(carrier_lines({read, apart}) ==
        "# shm: 0-1, long messages by process_vm_readv\n# tcp: 0-2 1-2 (another host)\n");
  CHECK(names_of({}) == "none");
  CHECK(names_of({apart, shared}) == "shm+tcp");
  Carrier many = apart;
  many.pairs.assign(30, {0, 1});
  CHECK_THAT(carrier_lines({many, shared}), ContainsSubstring("0-1 0-1 and 2 more (another host)\n"));
}

TEST_CASE("what is not shared is said in a line each", "[bench]") {
  CHECK(unshared_lines({}).empty());
  CHECK(unshared_lines({"no memory", "none either", 4096}) ==
        "# collectives by messages: no memory\n# buffers of 4K and more are not shared: none either\n");
}

TEST_CASE("what was not checked is neither right nor wrong", "[bench]") {
  Result result = example();
  result.wrong.reset();
  std::ostringstream text;
  write_json(text, "1.2.3", 4, {}, {}, {}, {result});
  CHECK(nlohmann::json::parse(text.str())["results"][0]["wrong"].is_null());
  CHECK_THAT(table_row(result), ContainsSubstring("N/A"));
  CHECK_THAT(table_foot({result}), ContainsSubstring("# Out of bounds values : N/A"));
}

TEST_CASE("what was not on devices has neither their columns nor their fields", "[bench]") {
  Result result = example();
  const auto report = [&] {
    std::ostringstream text;
    write_json(text, "1.2.3", 4, {}, {}, {}, {result});
    return nlohmann::json::parse(text.str());
  };
  const auto reported = [&](const char* name) { return report()["results"][0][name]; };
  CHECK(report()["device"].is_null());
  CHECK(reported("copy_percent").is_null());
  CHECK(reported("call_us").is_null());
  CHECK(reported("enqueue_us").is_null());
  CHECK_THAT(table_head(), !ContainsSubstring("copy%") && !ContainsSubstring("enqueue") && !ContainsSubstring("call"));
  take({{0.001}, 0, {1e-6, 4e-6}, {1e-6, 2e-6}}, 4, true, result);
  result.algbw_GBps = 100;
  compare_with_copies(1600, 4, result);
  CHECK(reported("copy_percent") == 50);
  CHECK(reported("call_us") == Catch::Approx(1.5));
  CHECK(reported("enqueue_us") == Catch::Approx(2.5));
  CHECK_THAT(table_row(result), ContainsSubstring("     1.50     2.50   50.00\n"));
  CHECK(table_row(result).size() == table_head(true).find('\n') + 1);
}

TEST_CASE("a CSV line has as many fields as the first line has names", "[bench]") {
  std::ostringstream text;
  write_csv(text, 4, {example()});
  std::istringstream lines(text.str());
  std::string names;
  std::string values;
  std::getline(lines, names);
  std::getline(lines, values);
  CHECK(std::count(names.begin(), names.end(), ',') == std::count(values.begin(), values.end(), ','));
  CHECK_THAT(values, Catch::Matchers::StartsWith("all_reduce,ring,tcp,float,sum,-1,1048576,262144,4,2000.000,") &&
                         Catch::Matchers::EndsWith(",4"));
}

TEST_CASE("every line of a table but the results begins with #", "[bench]") {
  std::istringstream comments(table_head() + table_foot({example()}));
  for (std::string line; std::getline(comments, line);) CHECK(line.substr(0, 1) == "#");
  const std::string row = table_row(example());
  CHECK(row.substr(0, 1) == " ");
  CHECK(row.size() == table_head().find('\n') + 1);
}

TEST_CASE("numbers lose decimals before they outgrow seven columns", "[bench]") {
  CHECK(short_number(1.234) == "1.23");
  CHECK(short_number(1234.567) == "1234.57");
  CHECK(short_number(12345.67) == "12345.7");
  CHECK(short_number(1234567.8) == "1234568");
  CHECK(short_number(123456789.0) == "123456789");
}

TEST_CASE("the exit status says whether any result was wrong", "[bench]") {
  Result wrong = example();
  wrong.wrong = 3;
  CHECK(exit_status({example()}) == kExitGood);
  CHECK(exit_status({example(), wrong}) == kExitWrong);
  CHECK_THAT(table_foot({example(), wrong}), ContainsSubstring("# Out of bounds values : 3 FAILED"));
}

TEST_CASE("a plot names its file, whatever characters are in it", "[bench]") {
  const std::string script = plot_script("it's.svg", 4, {example()});
  CHECK_THAT(script, ContainsSubstring("set output 'it''s.svg'"));
  CHECK_THAT(script, ContainsSubstring("all_reduce, 4 ranks, tcp, float, sum"));
  CHECK_THAT(script, ContainsSubstring("'1M' 1048576"));
}

TEST_CASE("a report that cannot be written is refused before anything runs", "[bench]") {
  Settings settings;
  settings.json = "/nonexistent/folder/report.json";
  CHECK_THROWS_AS(check_reports(settings), UsageError);
}
