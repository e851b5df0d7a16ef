#include <fstream>
#include <string>
#include <vector>

#include <rondo/algorithms.hpp>
#include <rondo/error.hpp>
#include <rondo/tuning.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace rondo;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string rejection(const std::string& text) {
  try {
    parse_tuning_rules(text, "file");
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == Errc::bad_configuration);
    return error.cause();
  }
}

}  // namespace

TEST_CASE("rules that were printed are read again", "[runtime][tuning]") {
  std::vector<TuningRule> rules(tuning_table().begin(), tuning_table().end());
  rules.push_back({Collective::reduce, 1000, 5, 5, Crowd::fits, {Algorithm::ring, 12345}, Reach::hosts});
  const std::string text = print_tuning_rules(rules);
  const auto read = parse_tuning_rules(text, "file");
  REQUIRE(read.size() == rules.size());
  CHECK(print_tuning_rules(read) == text);
  CHECK(read.back().up_to_bytes == 1000);
  CHECK(read.back().ranks_to == 5);
  CHECK(read.back().crowd == Crowd::fits);
  CHECK(read.back().reach == Reach::hosts);
  CHECK(read.back().choice.algorithm == Algorithm::ring);
  CHECK(read.back().choice.chunk_bytes == 12345);
}

TEST_CASE("comments and empty lines are no rules", "[runtime][tuning]") {
  const auto rules = parse_tuning_rules("# all\n\n \t\r\nbarrier\tany 3-any any any direct whole # why\r\n#", "file");
  REQUIRE(rules.size() == 1);
  CHECK(rules[0].ranks_from == 3);
  CHECK(rules[0].ranks_to == kAnyRanks);
  CHECK(parse_tuning_rules("", "file").empty());
}

TEST_CASE("a bad rule is named by its line, with what it says and what is wanted", "[runtime][tuning]") {
  CHECK(rejection("reduce any 2 any any tree whole").empty());
  CHECK(rejection("\nreduce any 2 any any tree") ==
        "file, line 2: columns: got \"6\", wanted 7: collective, up_to, ranks, on, crowd, algorithm, chunk");
  CHECK_THAT(rejection("reduse any 2 any any tree whole"),
             ContainsSubstring("collective: got \"reduse\", wanted one of all_reduce, reduce, "));
  CHECK_THAT(rejection("message any 2 any any tree whole"), ContainsSubstring("collective: got \"message\""));
  CHECK_THAT(rejection("reduce 12Q 2 any any tree whole"),
             ContainsSubstring("up_to: got \"12Q\", wanted bytes like 4096 or 64K, or any"));
  CHECK_THAT(rejection("reduce any 2 any any tree -1"), ContainsSubstring("chunk: got \"-1\", wanted bytes like"));
  CHECK_THAT(rejection("reduce any 2 any any bruck whole"),
             ContainsSubstring("algorithm: got \"bruck\", wanted one of reduce's: ring, tree, chain, linear, direct, "
                               "sliced, two_level, leader"));
  CHECK_THAT(rejection("reduce any 2 here any tree whole"),
             ContainsSubstring("on: got \"here\", wanted one of any, one_host, hosts"));
  CHECK_THAT(rejection("reduce any 2 any much tree whole"),
             ContainsSubstring("crowd: got \"much\", wanted one of any, fits, oversubscribed"));
  for (const std::string ranks : {"0", "8-3", "x", "2-", "-2", "any", "2-3-4", "99999999999"}) {
    CHECK_THAT(rejection("reduce any " + ranks + " any any tree whole"),
               ContainsSubstring("ranks: got \"" + ranks + "\", wanted ranks like 2, 3-8 or 9-any"));
  }
}

TEST_CASE("a file of rules is read, and named where it cannot be", "[runtime][tuning]") {
  CHECK(read_tuning_rules("").empty());
  const TemporaryDirectory directory;
  CHECK_THROWS_WITH(read_tuning_rules(directory / "none"),
                    ContainsSubstring("RONDO_TUNING_FILE: cannot read " + (directory / "none") + ": No such file"));
  CHECK_THROWS_WITH(read_tuning_rules(directory / "."),
                    ContainsSubstring("RONDO_TUNING_FILE: cannot read ") && ContainsSubstring("Is a directory"));
  CHECK_THROWS_WITH(read_tuning_rules("/dev/zero"),
                    ContainsSubstring("RONDO_TUNING_FILE: /dev/zero has more than 1048576 bytes: wanted a table"));
  std::ofstream(directory / "rules") << "barrier any 2 any any direct whole\nbarrier\n";
  CHECK_THROWS_WITH(read_tuning_rules(directory / "rules"),
                    ContainsSubstring("RONDO_TUNING_FILE: " + (directory / "rules") + ", line 2: columns"));
}

TEST_CASE("what is told of rules tells them apart, whatever their layout", "[runtime][tuning]") {
  const auto summary = [](const char* text) { return tuning_summary(parse_tuning_rules(text, "file")); };
  CHECK(summary("# nothing") == "no rules");
  CHECK(summary("barrier any 2 any any direct whole") == summary("#\nbarrier  any 2-2 any any  direct whole"));
  CHECK(summary("barrier any 2 any any direct whole") != summary("barrier any 3 any any direct whole"));
}
