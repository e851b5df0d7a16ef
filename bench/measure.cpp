#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Contents = Exercise::Contents;

constexpr int kChecks = 10;
constexpr double kFewestIterations = 5;
constexpr double kMostIterations = 1e6;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void run_untimed(Fabric& fabric, Exercise& exercise, const Plan& plan, int iterations) {
  for (int i = 0; i < iterations; ++i) {
    if (plan.barrier_before_each) fabric.barrier();
    exercise.run();
  }
}

/// Doubles a trial until it lasts a twentieth of the time asked for. All ranks count the slowest one's time, so that
/// they agree.
int iterations_for(Fabric& fabric, Exercise& exercise, const Plan& plan, double seconds) {
  for (int trial = 1;; trial *= 2) {
    const auto begin = Clock::now();
    run_untimed(fabric, exercise, plan, trial);
    double elapsed = since(begin);
    fabric.fold({&elapsed, 1}, Fabric::Fold::max);
    if (elapsed >= seconds / 20 || trial >= (1 << 16)) {
      const double wanted = std::ceil(seconds / std::max(elapsed, 1e-9) * trial);
      return static_cast<int>(std::clamp(wanted, kFewestIterations, kMostIterations));
    }
  }
}

}  // namespace

Measurement measure(Fabric& fabric, Exercise& exercise, const Plan& plan,
                    const std::function<void(double)>& on_progress) {
  exercise.prepare(Contents::pattern);
  exercise.prepare(Contents::zeros);
  fabric.barrier();
  run_untimed(fabric, exercise, plan, plan.warmup);
  const int iterations = plan.seconds ? iterations_for(fabric, exercise, plan, *plan.seconds) : plan.iterations;
  const int stride = std::max(iterations / kChecks, 1);

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

  fabric.fold(result.seconds, Fabric::Fold::max);
  auto wrong = static_cast<double>(result.wrong);
  fabric.fold({&wrong, 1}, Fabric::Fold::sum);
  // The fold may run on the very code whose results are wrong: what this rank saw itself stays counted.
  result.wrong = std::max(result.wrong, static_cast<std::size_t>(std::max(wrong, 0.0)));
  return result;
}

}  // namespace rondo::bench
