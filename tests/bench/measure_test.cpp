#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "bench/session.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::bench;

namespace {

using Clock = std::chrono::steady_clock;

/// This rank and one that is always ten times slower and sees one wrong element more.
class TwoRanks final : public Fabric {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void barrier() override { log += 'b'; }
  void fold(std::span<double> values, Fold how) override {
    for (double& value : values) value = how == Fold::max ? 10 * value : value + others_wrong;
  }

  std::string log;
  double others_wrong = 0;
};

class Logged final : public Exercise {
 public:
  explicit Logged(std::string& log) : log_(log) {}
  void prepare(Contents contents) override { log_ += contents == Contents::pattern ? 'p' : 'z'; }
  void run() override { log_ += 'r'; }
  std::size_t wrong() const override {
    log_ += 'w';
    return wrong_elements;
  }
  double enqueue() override {
    log_ += 'e';
    return 3;
  }
  void settle() override { log_ += 's'; }
  double scale() const override { return 0.5; }

  std::size_t wrong_elements = 0;

 private:
  std::string& log_;
};

/// What is measured takes a millisecond at the least.
class Sleeping final : public Exercise {
 public:
  void prepare(Contents) override {}
  void run() override {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    runs.push_back({begin, Clock::now()});
  }
  std::size_t wrong() const override { return 0; }
  double scale() const override { return 0.5; }

  struct Run {
    Clock::time_point begin, end;
  };
  std::vector<Run> runs;
};

Plan plan_of(int warmup, int iterations, bool check, bool barriers) {
  Plan plan;
  plan.warmup = warmup;
  plan.iterations = iterations;
  plan.check = check;
  plan.barrier_before_each = barriers;
  return plan;
}

}  // namespace

TEST_CASE("operations that synchronise run back to back", "[bench]") {
  TwoRanks fabric;
  Logged exercise(fabric.log);
  const Measurement measurement = measure(fabric, exercise, plan_of(2, 5, false, false));
  CHECK(fabric.log ==
        "pzb"
        "rr"
        "rrrrr");
  CHECK(measurement.seconds.size() == 5);
}

TEST_CASE("the others begin each iteration behind a barrier", "[bench]") {
  TwoRanks fabric;
  Logged exercise(fabric.log);
  measure(fabric, exercise, plan_of(1, 3, false, true));
  CHECK(fabric.log ==
        "pzb"
        "br"
        "brbrbr");
}

TEST_CASE("checks are in iterations that count: the first, the last and some between", "[bench]") {
  TwoRanks fabric;
  Logged exercise(fabric.log);
  measure(fabric, exercise, plan_of(0, 2, true, false));
  CHECK(fabric.log ==
        "pzb"
        "pbrbw"
        "pbrbw");

  fabric.log.clear();
  const Measurement many = measure(fabric, exercise, plan_of(0, 40, true, false));
  CHECK(many.seconds.size() == 40);
  CHECK(std::count(fabric.log.begin(), fabric.log.end(), 'w') == 5);
  CHECK(std::count(fabric.log.begin(), fabric.log.end(), 'r') == 40);
  CHECK(fabric.log.substr(0, 20) ==
        "pzb"
        "pbrbw"
        "zbrrrrrrrrr"
        "p");

  fabric.log.clear();
  measure(fabric, exercise, plan_of(0, 1000, true, false));
  CHECK(std::count(fabric.log.begin(), fabric.log.end(), 'w') == 11);
}

TEST_CASE("calls that only enqueue are timed by themselves, each behind a barrier", "[bench]") {
  TwoRanks fabric;
  Logged exercise(fabric.log);
  Plan plan = plan_of(0, 2, false, false);
  plan.enqueue = true;
  const Measurement two = measure(fabric, exercise, plan);
  CHECK(two.enqueue_seconds.size() == 2);
  CHECK(two.call_seconds == std::vector{15.0, 15.0});  // half of 3, on the slower rank
  CHECK(fabric.log ==
        "pzb"
        "rr"
        "zbesbes");
  plan.iterations = 1000;
  CHECK(measure(fabric, exercise, plan).enqueue_seconds.size() == 100);
}

TEST_CASE("wrong elements of all ranks and checks add up", "[bench]") {
  TwoRanks fabric;
  fabric.others_wrong = 1;
  Logged exercise(fabric.log);
  exercise.wrong_elements = 2;
  CHECK(measure(fabric, exercise, plan_of(0, 3, true, false)).wrong == 5);
  CHECK(measure(fabric, exercise, plan_of(0, 3, false, false)).wrong == 1);
}

TEST_CASE("what a rank saw itself counts even if the sum over the ranks is lost", "[bench]") {
  TwoRanks fabric;
  fabric.others_wrong = -100;
  Logged exercise(fabric.log);
  exercise.wrong_elements = 2;
  CHECK(measure(fabric, exercise, plan_of(0, 1, true, false)).wrong == 2);
}

TEST_CASE("an iteration's time is the slowest rank's", "[bench]") {
  TwoRanks fabric;
  Sleeping exercise;
  for (const double seconds : measure(fabric, exercise, plan_of(0, 3, false, false)).seconds)
    CHECK(seconds >= 10 * 0.5 * 0.001);
}

TEST_CASE("a time budget becomes a number of iterations that all ranks share", "[bench]") {
  TwoRanks fabric;
  Sleeping exercise;
  Plan plan;
  plan.seconds = 0.5;
  // The other rank says that an iteration takes ten times as long.
  const auto iterations = measure(fabric, exercise, plan).seconds.size();
  CHECK(iterations >= 5);
  CHECK(iterations <= 50);

  // The last trial has as many runs as all before it, and one more; so many take 0.5 s, by how long that trial took.
  exercise.runs.clear();
  const int within = iterations_within(fabric, exercise, 0.5, false);
  const auto all = exercise.runs.size();
  REQUIRE(all >= 3);
  const auto& runs = exercise.runs;
  const auto runs_in_time = [&](Clock::duration trial_took) {
    return 0.5 / (10 * std::chrono::duration<double>(trial_took).count()) * static_cast<double>(all - all / 2);
  };
  CHECK(within >= runs_in_time(Clock::now() - runs[all / 2 - 1].end));
  CHECK(within <= std::ceil(runs_in_time(runs.back().end - runs[all / 2].begin)));
}

TEST_CASE("memory that is not enough is said with the bytes that were asked for", "[bench]") {
  TwoRanks fabric;
  Subject subject;
  subject.exercise = [](const Shape&) -> std::unique_ptr<Exercise> { throw std::bad_alloc(); };
  Settings settings;
  settings.sizes = {4096};
  CHECK_THROWS_WITH(run_sizes(fabric, subject, settings), "all_reduce of 4096 bytes: memory is not enough");
}
