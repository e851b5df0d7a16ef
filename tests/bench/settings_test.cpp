#include "bench/settings.hpp"

#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The text of the error that these arguments get; empty if they are good.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse_settings(arguments);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("without options: floats, sum, 8 bytes to 16M, checked", "[bench]") {
  const Settings settings = parse_settings({"all_reduce"});
  CHECK(settings.operation == Operation::all_reduce);
  CHECK(settings.type == ElementType::float32);
  CHECK(settings.reduce == ReduceKind::sum);
  CHECK(settings.sizes.front() == 8);
  CHECK(settings.sizes.back() == 16 << 20);
  CHECK(settings.sizes.size() == 22);
  CHECK(settings.check);
  CHECK_FALSE(settings.in_place);
  CHECK_FALSE(settings.transport);
}

TEST_CASE("sizes are a range or a list", "[bench]") {
  CHECK(parse_settings({"latency", "--sizes", "8,64K,1M"}).sizes == std::vector<std::size_t>{8, 64 << 10, 1 << 20});
  CHECK(parse_settings({"latency", "-b", "1K", "-e", "20K", "-f", "4"}).sizes ==
        std::vector<std::size_t>{1024, 4096, 16384});
  CHECK(parse_settings({"latency", "-b", "2", "-e", "5", "-f", "1.1"}).sizes == std::vector<std::size_t>{2, 3, 4, 5});
  CHECK(parse_settings({"latency", "-b", "8", "-e", "8"}).sizes == std::vector<std::size_t>{8});
}

TEST_CASE("the operation may come last", "[bench]") {
  const Settings settings = parse_settings({"--sizes", "8,64K", "latency"});
  CHECK(settings.operation == Operation::latency);
  CHECK(settings.sizes.size() == 2);
}

TEST_CASE("every option is understood", "[bench]") {
  const Settings settings = parse_settings(
      {"reduce",      "-n",         "4",          "-t",     "half",        "-o",    "max",   "--root", "3",
       "--algorithm", "ring",       "--chunk",    "64K",    "--transport", "tcp",   "-w",    "7",      "--seconds",
       "0.5",         "--in-place", "--no-check", "--json", "a.json",      "--csv", "a.csv", "--plot", "a.svg"});
  CHECK(settings.ranks == 4);
  CHECK(settings.type == ElementType::float16);
  CHECK(settings.reduce == ReduceKind::max);
  CHECK(settings.root == 3);
  CHECK(settings.algorithm == Algorithm::ring);
  CHECK(settings.chunk_bytes == 64 << 10);
  CHECK(settings.transport == Transport::tcp);
  CHECK(settings.warmup == 7);
  CHECK(settings.seconds == 0.5);
  CHECK(settings.in_place);
  CHECK_FALSE(settings.check);
  CHECK(settings.json == "a.json");
  CHECK(settings.csv == "a.csv");
  CHECK(settings.plot == "a.svg");
}

TEST_CASE("bad arguments are refused with what was got and what is wanted", "[bench]") {
  CHECK_THAT(refusal({"allreduce"}), ContainsSubstring("unknown operation 'allreduce'; known: latency, bandwidth, "));
  CHECK_THAT(refusal({}), ContainsSubstring("an operation is missing; known: latency"));
  CHECK(refusal({"latency", "--size", "8"}) == "did not expect --size (see rondo-bench --help)");
  CHECK_THAT(refusal({"latency", "--sizes", "8,12Q"}), ContainsSubstring("12Q"));
  CHECK_THAT(refusal({"latency", "-b", "1M", "-e", "8"}), ContainsSubstring("-b 1M is more than -e 8"));
  CHECK_THAT(refusal({"latency", "-b", "0"}), ContainsSubstring("-b: got 0, wanted at least 1 byte"));
  CHECK_THAT(refusal({"latency", "-f", "1"}), ContainsSubstring("-f: got 1, wanted more than 1"));
  CHECK_THAT(refusal({"latency", "-t", "quad"}), ContainsSubstring("unknown type 'quad'; known: int8"));
  CHECK_THAT(refusal({"latency", "-t", "custom"}), ContainsSubstring("unknown type 'custom'"));
  CHECK_THAT(refusal({"all_reduce", "-o", "mean"}), ContainsSubstring("unknown operator 'mean'; known: sum"));
  CHECK_THAT(refusal({"latency", "-n", "0"}), ContainsSubstring("-n: got 0, wanted at least 1 rank"));
  CHECK(refusal({"latency", "-n", "x"}) == "--ranks: got x, wanted a whole number");
  CHECK(refusal({"latency", "-n", "2.5"}) == "--ranks: got 2.5, wanted a whole number");
  CHECK(refusal({"latency", "-i", "99999999999"}) == "--iterations: got 99999999999, wanted at most 2147483647");
  CHECK(refusal({"latency", "-w", "-99999999999"}) == "--warmup: got -99999999999, wanted at least -2147483648");
  CHECK(refusal({"latency", "-f", "2x"}) == "--factor: got 2x, wanted a number");
  CHECK(refusal({"latency", "--plot", "a.png"}) == "--plot: got a.png, wanted a name that ends in .svg");
  CHECK_THAT(refusal({"latency", "-i", "0"}), ContainsSubstring("-i: got 0"));
  CHECK_THAT(refusal({"latency", "--seconds", "-1"}), ContainsSubstring("--seconds: got -1, wanted more than 0"));
  CHECK_THAT(refusal({"latency", "--seconds", "1", "-i", "3"}), ContainsSubstring("excludes"));
  CHECK_THAT(refusal({"latency", "--sizes", "8", "-b", "8"}), ContainsSubstring("excludes"));
  CHECK_THAT(refusal({"latency", "--transport", "carrier"}),
             ContainsSubstring("--transport is RONDO_TRANSPORT: got \"carrier\", wanted one of auto, shm"));
  CHECK_THAT(refusal({"all_reduce", "--algorithm", "round"}),
             ContainsSubstring("unknown algorithm 'round'; known: automatic, ") && ContainsSubstring("bruck"));
  CHECK_THAT(refusal({"latency", "--bogus"}), ContainsSubstring("--bogus"));
}

TEST_CASE("arguments that do not fit each other are refused", "[bench]") {
  CHECK_THAT(refusal({"all_reduce", "-o", "band"}), ContainsSubstring("-o band is not defined for -t float"));
  CHECK_THAT(refusal({"all_reduce", "-o", "max", "-t", "complex64"}), ContainsSubstring("complex64"));
  CHECK_THAT(refusal({"latency", "--algorithm", "ring"}), ContainsSubstring("latency has no algorithms"));
  CHECK_THAT(refusal({"all_gather", "--algorithm", "pairwise"}),
             ContainsSubstring("all_gather has no algorithm pairwise; it has "));
  CHECK(parse_settings({"reduce", "--algorithm", "leader", "--device", "cuda"}).algorithm == Algorithm::leader);
  CHECK_THAT(refusal({"reduce", "--algorithm", "leader"}), ContainsSubstring("leader is for buffers on devices"));
  CHECK_THAT(refusal({"barrier", "--algorithm", "leader"}), ContainsSubstring("barrier has no algorithm leader"));
  CHECK(parse_settings({"gather", "--allocate"}).allocate);
  CHECK(parse_settings({"latency", "--device", "cuda"}).device);
  CHECK(!parse_settings({"latency", "--device", "cpu"}).device);
  CHECK_THAT(refusal({"latency", "--device", "gpu"}), ContainsSubstring("unknown device 'gpu'; known: cpu, cuda"));
  CHECK_THAT(refusal({"barrier", "--device", "cuda"}), ContainsSubstring("for operations with buffers, not barrier"));
  CHECK_THAT(refusal({"gather", "--device", "cuda", "--allocate"}),
             ContainsSubstring("--allocate gives memory of the host"));
  CHECK(parse_settings({"latency", "--allocate"}).allocate);
  CHECK_THAT(refusal({"barrier", "--allocate"}), ContainsSubstring("for operations with buffers, not barrier"));
  CHECK_THAT(refusal({"barrier", "--in-place"}), ContainsSubstring("no in-place form"));
  CHECK_THAT(refusal({"barrier", "--plot", "a.svg"}), ContainsSubstring("no sizes to plot"));
  CHECK(refusal({"all_reduce", "-o", "band", "-t", "uint8"}).empty());
}

TEST_CASE("some mistakes show only once the ranks are known", "[bench]") {
  CHECK_THROWS_AS(check_against(parse_settings({"latency"}), 1), UsageError);
  CHECK_THROWS_AS(check_against(parse_settings({"broadcast", "--root", "4"}), 4), UsageError);
  CHECK_THROWS_AS(check_against(parse_settings({"broadcast", "-n", "4", "--started"}), 3), UsageError);
  CHECK_NOTHROW(check_against(parse_settings({"all_reduce", "--root", "4"}), 1));
}

TEST_CASE("help is a text, not an error", "[bench]") {
  CHECK_THROWS_AS(parse_settings({"--help"}), HelpAsked);
  CHECK_THROWS_WITH(parse_settings({"all_reduce", "-h"}), ContainsSubstring("rondo-bench compare"));
}

TEST_CASE("iterations and windows shrink as messages grow", "[bench]") {
  const Settings settings = parse_settings({"bandwidth"});
  CHECK(iterations_for(settings, 8) > iterations_for(settings, 1 << 20));
  CHECK(window_for(settings, 8) == 64);
  CHECK(window_for(settings, 16 << 20) == 4);
  CHECK(window_for(settings, std::size_t{1} << 30) == 1);
  CHECK(iterations_for(parse_settings({"bandwidth", "-i", "3"}), 8) == 3);
}
