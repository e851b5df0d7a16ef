#include "bench/compare/loop.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

using Clock = std::chrono::steady_clock;

/// This rank, and one that is always three times slower and has one wrong element.
class TwoRanks final : public Fabric {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void barrier() override { ++barriers; }
  void fold(std::span<double> values, Fold how) override {
    for (double& value : values) value = how == Fold::max ? 3 * value : value + 1;
  }

  int barriers = 0;
};

class Sleeping final : public Exercise {
 public:
  explicit Sleeping(TwoRanks& fabric) : fabric_(fabric) {}
  void prepare(Contents) override {}
  void run() override {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    runs.push_back({fabric_.barriers, begin, Clock::now()});
  }
  std::size_t wrong() const override { return 4; }
  double scale() const override { return 0.5; }

  struct Run {
    int barriers;  ///< seen before it
    Clock::time_point begin, end;
  };
  std::vector<Run> runs;

 private:
  TwoRanks& fabric_;
};

}  // namespace

TEST_CASE("a loop is written and read with its algorithm", "[bench]") {
  const Loop plain{Operation::broadcast, 64 << 10, Algorithm::automatic, 0};
  const Loop special{Operation::all_reduce, 8, Algorithm::ring, 4096};
  CHECK(to_string(plain) == "broadcast:65536");
  CHECK(to_string(special) == "all_reduce:8:ring:4096");
  CHECK(parse_loop(to_string(plain)) == plain);
  CHECK(parse_loop(to_string(special)) == special);
  for (const char* text :
       {"", "all_reduce", "allreduce:8", "all_reduce:8Q", "all_reduce:8:ring", "all_reduce:8:round:0"})
    CHECK_THROWS_WITH(parse_loop(text), ContainsSubstring("wanted OPERATION:BYTES"));
}

TEST_CASE("a program is told its loops as it understands them", "[bench]") {
  LoopSettings settings;
  settings.loops = {{Operation::latency, 8, Algorithm::automatic, 0}, {Operation::barrier, 0, Algorithm::automatic, 0}};
  settings.seconds = 0.25;
  settings.allocate = true;
  const LoopSettings read = parse_loop_settings("loops", to_arguments(settings));
  CHECK(read.loops == settings.loops);
  CHECK(read.seconds == 0.25);
  CHECK(read.allocate);
  CHECK_FALSE(read.device);
  settings.device = true;
  CHECK(parse_loop_settings("loops", to_arguments(settings)).device);
  CHECK_THROWS_WITH(parse_host_loop_settings("loops", to_arguments(settings)),
                    ContainsSubstring("--device: got cuda, wanted cpu"));
  CHECK_THROWS_AS(parse_loop_settings("loops", {"--seconds", "1"}), UsageError);
}

TEST_CASE("lines of a program that runs loops are told from all others", "[bench]") {
  const Line ready = read_line("ready tcp+unix rondo 0.1.0");
  CHECK(ready.kind == Line::Kind::ready);
  CHECK(ready.introduction.transport == "tcp+unix");
  CHECK(ready.introduction.library == "rondo 0.1.0");
  const Line time = read_line("time all_reduce:8 1.5000 3");
  CHECK(time.kind == Line::Kind::time);
  CHECK(time.loop == Loop{Operation::all_reduce, 8, Algorithm::automatic, 0});
  CHECK(time.microseconds == 1.5);
  CHECK(time.wrong == 3);
  for (const char* text : {"", "time flies", "No such file", "times all_reduce:8 1 0"})
    CHECK(read_line(text).kind == Line::Kind::other);
}

TEST_CASE("a loop's time is the slowest rank's mean, with no barrier inside", "[bench]") {
  TwoRanks fabric;
  Sleeping exercise(fabric);
  std::size_t wrong = 0;
  const double seconds = time_loop(fabric, exercise, 0.1, wrong);
  CHECK(seconds >= 3 * 0.5 * 0.001);
  CHECK(wrong == 5);

  // One run is checked, then come trials, twice as many runs in each as in the one before; the rest is the loop: so
  // many runs as take 0.1 s, by the last trial, as the slower rank counts.
  const auto& runs = exercise.runs;
  CHECK(runs.front().barriers == 1);
  const auto loop = std::find_if(runs.begin(), runs.end(), [](const auto& run) { return run.barriers == 3; });
  REQUIRE(loop < runs.end());
  const auto trial = loop - (loop - runs.begin()) / 2;
  const auto runs_in_time = [&](Clock::duration trial_took) {
    return 0.1 / (3 * std::chrono::duration<double>(trial_took).count()) * static_cast<double>(loop - trial);
  };
  const auto in_loop = static_cast<double>(runs.end() - loop);
  CHECK(in_loop >= runs_in_time(loop->begin - std::prev(trial)->end));
  CHECK(in_loop <= std::ceil(runs_in_time(std::prev(loop)->end - trial->begin)));
}
