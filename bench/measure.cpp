#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Contents = Exercise::Contents;

constexpr int kChecks = 10;
constexpr int kLeastStride = 10;  // an iteration after one with a check does not follow another at once
constexpr int kFewestIterations = 5;
constexpr double kMostIterations = 1e6;
constexpr int kMostEnqueued = 100;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void run_untimed(Fabric& fabric, Exercise& exercise, bool barrier_before_each, int iterations) {
  for (int i = 0; i < iterations; ++i) {
    if (barrier_before_each) fabric.barrier();
    exercise.run();
  }
}

int iterations_of(Fabric& fabric, Exercise& exercise, const Plan& plan) {
  if (!plan.seconds) return plan.iterations;
  return std::max(iterations_within(fabric, exercise, *plan.seconds, plan.barrier_before_each), kFewestIterations);
}

void time_enqueuing(Fabric& fabric, Exercise& exercise, int iterations, Measurement& result) {
  exercise.prepare(Contents::zeros);
  for (int i = 0; i < std::min(iterations, kMostEnqueued); ++i) {
    fabric.barrier();
    const auto begin = Clock::now();
    const double calling = exercise.enqueue();
    result.enqueue_seconds.push_back(since(begin) * exercise.scale());
    result.call_seconds.push_back(calling * exercise.scale());
    exercise.settle();
  }
  fabric.fold(result.enqueue_seconds, Fabric::Fold::max);
  fabric.fold(result.call_seconds, Fabric::Fold::max);
}

}  // namespace

int iterations_within(Fabric& fabric, Exercise& exercise, double seconds, bool barrier_before_each) {
  for (int trial = 1;; trial *= 2) {
    const auto begin = Clock::now();
    run_untimed(fabric, exercise, barrier_before_each, trial);
    double elapsed = since(begin);
    fabric.fold({&elapsed, 1}, Fabric::Fold::max);
    if (elapsed >= seconds / 20 || trial >= (1 << 16)) {
      const double wanted = std::ceil(seconds / std::max(elapsed, 1e-9) * trial);
      return static_cast<int>(std::clamp(wanted, 1.0, kMostIterations));
    }
  }
}

Measurement measure(Fabric& fabric, Exercise& exercise, const Plan& plan,
                    const std::function<void(double)>& on_progress) {
  exercise.prepare(Contents::pattern);
  exercise.prepare(Contents::zeros);
  fabric.barrier();
  run_untimed(fabric, exercise, plan.barrier_before_each, plan.warmup);
  const int iterations = iterations_of(fabric, exercise, plan);
  const int stride = std::max(iterations / kChecks, kLeastStride);

  Measurement result;
  result.seconds.reserve(static_cast<std::size_t>(iterations));
  bool check_came_before = false;
  for (int i = 0; i < iterations; ++i) {
    const bool check_follows = plan.check && (i % stride == 0 || i == iterations - 1);
    if (check_follows)
      exercise.prepare(Contents::pattern);
    else if (check_came_before)
      exercise.prepare(Contents::zeros);
    if (plan.barrier_before_each || check_follows || check_came_before) fabric.barrier();

    const auto begin = Clock::now();
    exercise.run();
    result.seconds.push_back(since(begin) * exercise.scale());

    if (check_follows) {
      fabric.barrier();
      result.wrong += exercise.wrong();
      if (on_progress) on_progress(static_cast<double>(i + 1) / iterations);
    }
    check_came_before = check_follows;
  }

  if (plan.enqueue) time_enqueuing(fabric, exercise, iterations, result);
  fabric.fold(result.seconds, Fabric::Fold::max);
  auto wrong = static_cast<double>(result.wrong);
  fabric.fold({&wrong, 1}, Fabric::Fold::sum);
  // The fold may run on the very code whose results are wrong: what this rank saw itself stays counted.
  result.wrong = std::max(result.wrong, static_cast<std::size_t>(std::max(wrong, 0.0)));
  return result;
}

}  // namespace rondo::bench
