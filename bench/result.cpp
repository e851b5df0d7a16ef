#include "bench/result.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/settings.hpp"

namespace rondo::bench {

namespace {

Times in_microseconds(std::vector<double> seconds) {
  for (double& time : seconds) time *= 1e6;
  return summarise(std::move(seconds));
}

}  // namespace

void take(const Measurement& measurement, int ranks, bool checked, Result& into) {
  into.iterations = measurement.seconds.size();
  into.time_us = in_microseconds(measurement.seconds);
  if (!measurement.enqueue_seconds.empty()) into.enqueue_us = in_microseconds(measurement.enqueue_seconds).mean;
  if (!measurement.call_seconds.empty()) into.call_us = in_microseconds(measurement.call_seconds).mean;
  into.algbw_GBps = into.time_us.mean > 0 ? static_cast<double>(into.bytes) / into.time_us.mean / 1e3 : 0;
  into.busbw_GBps = into.algbw_GBps * bus_factor(into.operation, ranks);
  if (checked) into.wrong = measurement.wrong;
}

void compare_with_copies(double copy_GBps, int ranks, Result& result) {
  result.copy_percent = 100 * result.algbw_GBps * memory_factor(result.operation, ranks) / copy_GBps;
}

int exit_status(const std::vector<Result>& results) {
  const bool any_wrong =
      std::any_of(results.begin(), results.end(), [](const Result& result) { return result.wrong.value_or(0) != 0; });
  return any_wrong ? kExitWrong : kExitGood;
}

}  // namespace rondo::bench
