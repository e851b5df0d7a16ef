#include "bench/result.hpp"

#include <algorithm>

#include "bench/settings.hpp"

namespace rondo::bench {

void take(const Measurement& measurement, int ranks, bool checked, Result& into) {
  std::vector<double> microseconds = measurement.seconds;
  for (double& time : microseconds) time *= 1e6;
  into.iterations = microseconds.size();
  into.time_us = summarise(std::move(microseconds));
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
