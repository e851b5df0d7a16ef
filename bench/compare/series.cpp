#include "bench/compare/series.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>

#include <fmt/format.h>

namespace rondo::bench {
namespace {

/// One start of the program, until it ends or is ended.
class Run {
 public:
  Run(const Command& command, const Limits& limits, Series& series)
      : child_(command), limits_(limits), series_(series) {}

  /// Adds the time of every loop that comes; `pending` loses it. Empty if all came, else why the next one did not.
  std::string read_times(std::vector<Loop>& pending) {
    while (!pending.empty()) {
      std::string text;
      const std::chrono::duration<double> waited = Clock::now() - last_news_;
      const double patience = ready_ ? limits_.seconds : limits_.start_seconds;
      const double left = patience - waited.count();
      const Child::Read read = left > 0 ? child_.next_line(text, left) : Child::Read::late;
      if (read == Child::Read::late)
        return ready_ ? over_limit() : fmt::format("did not start within {:g} s", patience);
      if (read == Child::Read::end) return broken_off();
      take(read_line(text), text, pending);
    }
    constexpr double kSecondsToEnd = 10;
    child_.finish(kSecondsToEnd);
    return "";
  }

  bool ready() const { return ready_; }
  std::string over_limit() const { return fmt::format("over {:g} s", limits_.seconds); }

 private:
  using Clock = std::chrono::steady_clock;

  void take(const Line& line, const std::string& text, std::vector<Loop>& pending) {
    if (line.kind != Line::Kind::other) last_news_ = Clock::now();
    switch (line.kind) {
      case Line::Kind::ready:
        ready_ = true;
        series_.introduction = line.introduction;
        return;
      case Line::Kind::time:
        if (line.wrong == 0)
          series_.timings[line.loop].push_back({line.microseconds});
        else
          series_.troubles[line.loop] = fmt::format("{} wrong elements", line.wrong);
        std::erase(pending, line.loop);
        return;
      case Line::Kind::other: remember(text);
    }
  }

  /// The first line with words in it usually is the reason; what follows is advice.
  void remember(const std::string& text) {
    const auto is_letter = [](unsigned char character) { return std::isalpha(character) != 0; };
    if (words_.empty() && std::any_of(text.begin(), text.end(), is_letter)) words_ = text;
  }

  std::string broken_off() {
    constexpr double kSecondsToEnd = 5;
    const int status = child_.finish(kSecondsToEnd);
    return fmt::format("exit status {}{}{}", status, words_.empty() ? "" : ": ", words_);
  }

  Child child_;
  const Limits& limits_;
  Series& series_;
  bool ready_ = false;
  Clock::time_point last_news_ = Clock::now();  ///< of a loop: other lines are no progress
  std::string words_;
};

}  // namespace

std::vector<double> Series::near_times_of(const Loop& loop, const CoreDistance& distance) const {
  std::vector<double> times;
  const auto found = timings.find(loop);
  if (found == timings.end()) return times;
  for (const Timing& timing : found->second) {
    if (distance.is_near(timing.core_distance)) times.push_back(timing.microseconds);
  }
  return times;
}

std::vector<double> Series::times_of(const Loop& loop, const CoreDistance& distance) const {
  std::vector<double> times = near_times_of(loop, distance);
  if (!times.empty() || !timings.contains(loop)) return times;
  for (const Timing& timing : timings.at(loop)) times.push_back(timing.microseconds);
  return times;
}

void run_series(const std::vector<Loop>& loops, const Limits& limits,
                const std::function<Command(const std::vector<Loop>&)>& command_for, Series& series) {
  const auto in_trouble = [&series](const Loop& loop) { return series.troubles.contains(loop); };
  std::vector<Loop> pending = loops;
  std::erase_if(pending, in_trouble);
  while (!pending.empty()) {
    Run run(command_for(pending), limits, series);
    const std::string trouble = run.read_times(pending);
    if (trouble.empty()) return;
    const Loop culprit = pending.front();
    for (const Loop& loop : pending) {
      const bool larger =
          loop.operation == culprit.operation && loop.algorithm == culprit.algorithm && loop.bytes > culprit.bytes;
      if (!run.ready() || loop == culprit || (larger && trouble == run.over_limit())) series.troubles[loop] = trouble;
    }
    std::erase_if(pending, in_trouble);
  }
}

void run_series(const std::vector<Loop>& loops, const Limits& limits,
                const std::function<Command(const std::vector<Loop>&)>& command_for, Series& series,
                CoreDistance& distance) {
  Series more{series.introduction, {}, series.troubles};
  const double before = distance.settle();
  run_series(loops, limits, command_for, more);
  const double core_distance = std::max(before, distance.now());
  series.introduction = more.introduction;
  series.troubles = more.troubles;
  for (const auto& [loop, timings] : more.timings) {
    for (const Timing& timing : timings) series.timings[loop].push_back({timing.microseconds, core_distance});
  }
}

}  // namespace rondo::bench
