#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
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

/// Any plan, and any network that the formulas are meant for.
struct Case {
  explicit Case(std::mt19937& random) {
    const auto upto = [&](std::size_t most) { return random() % most; };
    plan.collective = kCollectives[upto(std::size(kCollectives))];
    const auto algorithms = algorithms_of(plan.collective);
    plan.algorithm = algorithms[upto(algorithms.size())];
    size = 2 + static_cast<int>(upto(upto(2) == 0 ? 7 : 60));
    std::size_t count = upto(4) == 0 ? 1 + upto(200) : 1 + upto(1000000);
    if (upto(2) == 0 || plan.collective == Collective::all_to_all) count = (count / 50 + 1) * size_t_of(size);
    if (upto(2) == 0) plan.chunk = 1 + count / (1 + upto(60));
    plan.lanes = 1 + static_cast<int>(upto(4));
    if (upto(2) == 0) plan.root = static_cast<int>(upto(size_t_of(size)));
    plan.commutative = upto(2) == 0 || !is_valid(plan.collective, plan.algorithm, false);
    plan.blocks = Blocks::even(count, size);
    plan.recv_blocks = plan.blocks;
    model.latency = static_cast<Time>(1 + upto(10)) * kMicrosecond;
    model.overhead = upto(2) == 0 ? 0 : kMicrosecond;
    model.gap = 2 * model.overhead;
    if (upto(2) == 0) model.reduce_per_byte = 0;
  }
  static std::size_t size_t_of(int number) { return static_cast<std::size_t>(number); }

  Plan plan;
  int size = 0;
  LogGP model;
};

Plan plan_for(Collective collective, Algorithm algorithm, int size, std::size_t count, std::size_t chunk, int lanes) {
  Plan plan{.collective = collective, .algorithm = algorithm, .chunk = chunk, .lanes = lanes};
  plan.blocks = Blocks::even(count, size);
  plan.recv_blocks = plan.blocks;
  return plan;
}

std::string describe(const Plan& plan, int size) {
  return std::string(to_string(plan.collective)) + " by " + std::string(to_string(plan.algorithm)) + ", ranks " +
         std::to_string(size) + ", count " + std::to_string(plan.blocks.total()) + ", chunk " +
         std::to_string(plan.chunk) + ", lanes " + std::to_string(plan.lanes) + ", root " + std::to_string(plan.root) +
         (plan.commutative ? "" : ", ordered");
}

bool equal(const Prediction& run, const Prediction& stated) {
  return run.time == stated.time && run.messages == stated.messages && run.bytes == stated.bytes &&
         run.scratch == stated.scratch && run.total_messages == stated.total_messages;
}

bool within(const Prediction& run, const Prediction& stated) {
  return run.time <= stated.time && run.messages <= stated.messages && run.bytes <= stated.bytes &&
         run.scratch <= stated.scratch && run.total_messages <= stated.total_messages;
}

/// Reducing is free here: where receives queue, a processor that reduces slower than the port delivers decides, and
/// that is no part of the formulas.
constexpr LogGP kModel{.latency = 5 * kMicrosecond, .reduce_per_byte = 0};

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
        if (stated.at_most) {
          CHECK(run.time <= stated.time);
        } else {
          CHECK(run.time == stated.time);
        }
      }
    }
  }
}

TEST_CASE("a formula is exact, or says that it is an upper bound and is one", "[simulation][cost]") {
  std::mt19937 random(20261121);
  std::map<std::pair<Collective, Algorithm>, int> exact, bounded;
  for (int i = 0; i < 20000; ++i) {
    const Case any(random);
    const Prediction run = simulate(any.plan, any.size, any.model);
    const Prediction stated = formula(any.plan, any.size, any.model);
    ++(stated.at_most ? bounded : exact)[{any.plan.collective, any.plan.algorithm}];
    if (stated.at_most ? within(run, stated) : equal(run, stated)) continue;
    FAIL(describe(any.plan, any.size) << ", latency " << any.model.latency << ", overhead " << any.model.overhead
                                      << ": took " << run.time << ", stated " << stated.time
                                      << (stated.at_most ? " at most" : " exactly"));
  }
  // Each has a form in which it is exact.
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : algorithms_of(collective)) {
      INFO(to_string(collective) << " by " << to_string(algorithm));
      CHECK(exact[{collective, algorithm}] > 10);
    }
  }
  // Whole broadcasts, and chunks down a chain, are exact for any number of ranks.
  CHECK(bounded[{Collective::broadcast, Algorithm::chain}] == 0);
  CHECK(bounded[{Collective::broadcast, Algorithm::linear}] == 0);
}

TEST_CASE("chunks one after the other take the formula", "[simulation][cost]") {
  const auto [collective, algorithm] =
      GENERATE(std::pair{Collective::all_reduce, Algorithm::ring}, std::pair{Collective::all_reduce, Algorithm::tree},
               std::pair{Collective::all_reduce, Algorithm::recursive_doubling},
               std::pair{Collective::broadcast, Algorithm::tree}, std::pair{Collective::all_gather, Algorithm::ring},
               std::pair{Collective::reduce_scatter, Algorithm::ring});
  for (const int size : {2, 4, 16, 64}) {
    for (const std::size_t chunks : {1U, 2U, 5U}) {
      const std::size_t count = static_cast<std::size_t>(size) * 60000;
      const Plan plan = plan_for(collective, algorithm, size, count, 60000 / chunks, 1);
      INFO(describe(plan, size));
      CHECK(equal(simulate(plan, size, LogGP{}), formula(plan, size, LogGP{})));
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
