#include <unistd.h>

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
using Catch::Matchers::StartsWith;

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

/// What is printed on standard error for this command line.
std::string complaint(std::initializer_list<const char*> words) {
  std::FILE* const file = std::tmpfile();
  const int before = ::dup(2);
  ::dup2(::fileno(file), 2);
  const int status = status_of(words);
  ::dup2(before, 2);
  ::close(before);
  CHECK(status == 2);
  std::string text(1000, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
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
  CHECK(parse({"all_to_all", "--ranks", "7", "--size", "0"}, status)->bytes == 0);
  CHECK(complaint({"all_to_all", "--ranks", "7", "--size", "6"}) ==
        "rondo-sim: --size: got \"6\", wanted at least 7 bytes, one for each rank\n");
}

/// What it says on stderr as it fails.
std::string failure_of(const std::string& arguments) {
  std::FILE* const pipe = ::popen((RONDO_SIM " " + arguments).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  CHECK(::pclose(pipe) != 0);
  return text;
}

TEST_CASE("rondo-sim says when its table cannot be written", "[tools][sim]") {
  if (::access("/dev/full", W_OK) != 0) return;
  CHECK(failure_of("all_reduce --ranks 4 2>&1 >/dev/full") ==
        "rondo-sim: cannot write to standard output: No space left on device\n");
}

TEST_CASE("rondo-sim refuses what takes more time than it can count", "[tools][sim]") {
  CHECK(failure_of("all_reduce --ranks 8 --algorithm tree --size 1024T --chunk 1 2>&1") ==
        "rondo-sim: tree of 1125899906842624 bytes, chunk 1: it takes more than 104 days, which is not simulated\n");
  CHECK(complaint({"all_reduce", "--size", "1025T"}) == "rondo-sim: --size: got \"1025T\", wanted at most 1024T\n");
}

TEST_CASE("rondo-sim takes all algorithms that a collective has", "[tools][sim]") {
  int status = -1;
  const auto all = parse({"all_reduce"}, status);
  REQUIRE(all.has_value());
  CHECK(all->algorithms.size() == 6);
  const auto ordered = parse({"all_reduce", "--ordered"}, status);
  REQUIRE(ordered.has_value());
  CHECK(ordered->algorithms.size() == 5);
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

TEST_CASE("rondo-sim says in one line which option is wrong and what is wanted", "[tools][sim]") {
  for (const char* option : {"--latency", "--overhead", "--gap", "--gap-per-byte", "--reduce-per-byte"}) {
    for (const char* text : {"5", "us", "5min", "5 us", "nan"}) {
      CHECK(complaint({"all_reduce", option, text}) ==
            std::string("rondo-sim: ") + option + ": got \"" + text +
                "\", wanted a time with its unit (ps, ns, us, ms or s), like 1.5us\n");
    }
  }
  CHECK(complaint({"reduce", "--algorithm", "foo"}) ==
        "rondo-sim: --algorithm: got \"foo\", wanted one of tree, linear, ring, chain\n");
  for (const std::string name : {"direct", "sliced", "two_level", "leader"}) {
    CHECK(complaint({"reduce", "--algorithm", name.c_str()}) == "rondo-sim: --algorithm: got \"" + name +
                                                                    "\", wanted one of tree, linear, ring, chain (" +
                                                                    name + " is not simulated)\n");
  }
  CHECK(complaint({"all_reduce", "--chunk", "12Q"}) ==
        "rondo-sim: --chunk: got \"12Q\", wanted a whole number like 4096, 64K, 4M, 1G\n");
  CHECK_THAT(complaint({"all_reduces"}), StartsWith("rondo-sim: operation: got \"all_reduces\", wanted all_reduce, "));
  CHECK(complaint({"all_reduce", "--rank", "3"}) == "rondo-sim: unknown option --rank (see rondo-sim --help)\n");
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
