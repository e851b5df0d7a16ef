#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <rondo/tuning.hpp>

#include "collectives/simulation/event_queue.hpp"
#include "collectives/simulation/predict.hpp"
#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::simulation;

namespace {

constexpr Collective kCollectives[] = {Collective::all_reduce,     Collective::reduce,     Collective::broadcast,
                                       Collective::scatter,        Collective::gather,     Collective::all_gather,
                                       Collective::reduce_scatter, Collective::all_to_all, Collective::barrier};

Plan plan_for(Collective collective, Algorithm algorithm, int size, std::size_t count, std::size_t chunk, int lanes) {
  Plan plan{.collective = collective, .algorithm = algorithm, .chunk = chunk, .lanes = lanes};
  plan.blocks = Blocks::even(count, size);
  plan.recv_blocks = plan.blocks;
  return plan;
}

std::string describe(const Plan& plan, int size) {
  return std::string(to_string(plan.collective)) + " by " + std::string(to_string(plan.algorithm)) + ", ranks " +
         std::to_string(size) + ", count " + std::to_string(plan.blocks.total()) + ", chunk " +
         std::to_string(plan.chunk);
}

/// Reducing is free here: where receives queue, a processor that reduces slower than the port delivers decides, and
/// that is no part of the formulas.
constexpr LogGP kModel{.latency = 5 * kMicrosecond, .reduce_per_byte = 0};

bool is_power_of_two(int size) { return (size & (size - 1)) == 0; }

}  // namespace

TEST_CASE("the event queue is a clock: by time, then by order of arrival", "[simulation]") {
  EventQueue<int> queue;
  std::mt19937 random(7);
  std::vector<Time> times;
  for (int i = 0; i < 1000; ++i) {
    times.push_back(static_cast<Time>(random() % 50));
    queue.push(times.back(), i);
  }
  auto last = std::pair<Time, int>{-1, -1};
  for (int i = 0; i < 1000; ++i) {
    const auto next = queue.pop();
    CHECK(next > last);
    CHECK(times[static_cast<std::size_t>(next.second)] == next.first);
    last = next;
  }
  CHECK(queue.empty());
}

TEST_CASE("simulated time, messages and bytes are what the algorithms state", "[simulation][cost]") {
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : algorithms_of(collective)) {
      for (const int size : {2, 3, 4, 5, 7, 8, 16, 33, 64}) {
        const Plan plan = plan_for(collective, algorithm, size, static_cast<std::size_t>(size) * 50000, 0, 1);
        const Prediction run = simulate(plan, size, kModel);
        const Prediction stated = formula(plan, size, kModel);
        INFO(describe(plan, size));
        CHECK(run.messages == stated.messages);
        CHECK(run.bytes == stated.bytes);
        CHECK(run.scratch == stated.scratch);
        CHECK(run.total_messages == stated.total_messages);
        const bool doubles = algorithm == Algorithm::tree || algorithm == Algorithm::recursive_doubling;
        if (doubles && !is_power_of_two(size)) {
          CHECK(run.time <= stated.time);
        } else {
          CHECK(run.time == stated.time);
        }
      }
    }
  }
}

TEST_CASE("the formulas hold with a cost of reducing where every step waits for the last", "[simulation][cost]") {
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::recursive_doubling}) {
    for (const int size : {2, 4, 8, 64}) {
      const Plan plan = plan_for(Collective::all_reduce, algorithm, size, 640000, 0, 1);
      INFO(describe(plan, size));
      CHECK(simulate(plan, size, LogGP{}).time == formula(plan, size, LogGP{}).time);
    }
  }
}

TEST_CASE("a chain of many chunks takes the formula of the pipeline", "[simulation][cost]") {
  for (const int size : {2, 3, 8, 20}) {
    for (const std::size_t chunks : {1U, 2U, 5U, 40U}) {
      const Plan plan = plan_for(Collective::broadcast, Algorithm::chain, size, chunks * 100000, 100000, 4);
      INFO(describe(plan, size));
      CHECK(simulate(plan, size, kModel).time == formula(plan, size, kModel).time);
    }
  }
}

TEST_CASE("lanes hide latency: more of them are never slower than the formula", "[simulation][cost]") {
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : algorithms_of(collective)) {
      const Plan one = plan_for(collective, algorithm, 8, 800000, 10000, 1);
      const Plan many = plan_for(collective, algorithm, 8, 800000, 10000, 3);
      const Prediction stated = formula(one, 8, kModel);
      const Prediction run = simulate(many, 8, kModel);
      INFO(describe(many, 8));
      CHECK(run.time <= stated.time);
      CHECK(run.messages == stated.messages);
      CHECK(run.bytes == stated.bytes);
      CHECK(run.total_messages == stated.total_messages);
    }
  }
}

TEST_CASE("a simulation runs the same way every time", "[simulation]") {
  const Plan plan = plan_for(Collective::all_reduce, Algorithm::ring, 13, 1000, 7, 3);
  const Time first = simulate(plan, 13, LogGP{}).time;
  for (int again = 0; again < 5; ++again) CHECK(simulate(plan, 13, LogGP{}).time == first);
}
