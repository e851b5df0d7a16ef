#include "bench/table.hpp"

#include <fmt/format.h>

namespace rondo::bench {

std::string short_number(double value) {
  constexpr std::size_t kColumns = 7;
  for (int decimals = 2; decimals > 0; --decimals) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= kColumns) return text;
  }
  return fmt::format("{:.0f}", value);
}

std::string short_ratio(double ratio) { return fmt::format("{:.{}f}", ratio, ratio < 0.1 ? 3 : 2); }

std::string table_head(bool on_devices) {
  return fmt::format(
      "#{:>11}  {:>12}  {:>10}  {:>6}  {:>4}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>6}{}\n"
      "#{:>11}  {:>12}  {:>10}  {:>6}  {:>4}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}{}\n",
      "size", "count", "type", "redop", "root", "time", "p50", "p99", "algbw", "busbw", "#wrong",
      on_devices ? "     call  enqueue   copy%" : "",  //
      "(B)", "(elements)", "", "", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)",
      on_devices ? "             (us)     (us)" : "");
}

std::string table_row(const Result& result) {
  const Times& time = result.time_us;
  return fmt::format("{:>12}  {:>12}  {:>10}  {:>6}  {:>4}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>6}{}{}{}\n",
                     result.bytes, result.count, result.type, result.reduce, result.root, short_number(time.mean),
                     short_number(time.p50), short_number(time.p99), short_number(result.algbw_GBps),
                     short_number(result.busbw_GBps), result.wrong ? fmt::format("{}", *result.wrong) : "N/A",
                     result.call_us ? fmt::format("  {:>7}", short_number(*result.call_us)) : "",
                     result.enqueue_us ? fmt::format("  {:>7}", short_number(*result.enqueue_us)) : "",
                     result.copy_percent ? fmt::format("  {:>6}", short_number(*result.copy_percent)) : "");
}

std::string table_foot(const std::vector<Result>& results) {
  std::size_t wrong = 0;
  bool checked = false;
  double bandwidth = 0;
  for (const Result& result : results) {
    checked = checked || result.wrong.has_value();
    wrong += result.wrong.value_or(0);
    bandwidth += result.busbw_GBps;
  }
  const std::string verdict = checked ? fmt::format("{} {}", wrong, wrong == 0 ? "OK" : "FAILED") : "N/A";
  const double average = results.empty() ? 0 : bandwidth / static_cast<double>(results.size());
  return fmt::format("# Out of bounds values : {}\n# Avg bus bandwidth    : {:.6g}\n", verdict, average);
}

}  // namespace rondo::bench
