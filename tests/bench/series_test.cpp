#include "bench/compare/series.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <fmt/format.h>

#include "tests/support/catch.hpp"

using namespace rondo::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

Command shell(const std::string& script) { return {{"sh", "-c", script}, {}}; }

const Loop kSmall{Operation::barrier, 0, rondo::Algorithm::automatic, 0};
const Loop kMiddle{Operation::all_reduce, 8, rondo::Algorithm::automatic, 0};
const Loop kLarge{Operation::all_reduce, 64, rondo::Algorithm::automatic, 0};
const Loop kOther{Operation::gather, 8, rondo::Algorithm::automatic, 0};
const std::vector<Loop> kLoops{kSmall, kMiddle, kLarge, kOther};

constexpr double kLongEnough = 60;

std::string times_of(const std::vector<Loop>& loops, double microseconds = 2.5) {
  std::string text = "echo ready tcp it; ";
  for (const Loop& loop : loops) text += fmt::format("echo time {} {} 0; ", to_string(loop), microseconds);
  return text;
}

/// Runs `kLoops` with a program that does what `script` says of the loops that it gets.
template <typename Script>
Series series_of(const Limits& limits, Script&& script) {
  Series series;
  run_series(
      kLoops, limits, [&](const std::vector<Loop>& loops) { return shell(script(loops)); }, series);
  return series;
}

}  // namespace

TEST_CASE("a child's lines are read from both outputs, and its status", "[bench][child]") {
  Child child({{"sh", "-c", "echo $WORD; echo two >&2; printf three; exit 7"}, {{"WORD", "one"}}});
  std::string line;
  REQUIRE(child.next_line(line, kLongEnough) == Child::Read::line);
  CHECK(line == "one");
  REQUIRE(child.next_line(line, kLongEnough) == Child::Read::line);
  CHECK(line == "two");
  REQUIRE(child.next_line(line, kLongEnough) == Child::Read::line);
  CHECK(line == "three");
  CHECK(child.next_line(line, kLongEnough) == Child::Read::end);
  CHECK(child.finish(kLongEnough) == 7);
}

TEST_CASE("a program that is not there says so", "[bench][child]") {
  Child child({{"/nonexistent/program"}, {}});
  std::string line;
  REQUIRE(child.next_line(line, kLongEnough) == Child::Read::line);
  CHECK_THAT(line, ContainsSubstring("cannot run /nonexistent/program: No such file"));
  CHECK(child.finish(kLongEnough) == 127);
}

TEST_CASE("a child ends with all that it started, in whatever session", "[bench][child]") {
  pid_t descendant = 0;
  {
    Child child(shell("setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' & trap '' TERM; wait"));
    std::string line;
    REQUIRE(child.next_line(line, kLongEnough) == Child::Read::line);
    descendant = std::stoi(line);
    REQUIRE(kill(descendant, 0) == 0);
  }
  CHECK(kill(descendant, 0) == -1);
  CHECK(errno == ESRCH);
}

TEST_CASE("a child ends no other that this process has", "[bench][child]") {
  const pid_t other = fork();
  if (other == 0) {
    pause();
    _exit(0);
  }
  CHECK(Child(shell("true")).finish(kLongEnough) == 0);
  CHECK(waitpid(other, nullptr, WNOHANG) == 0);
  kill(other, SIGKILL);
  CHECK(waitpid(other, nullptr, 0) == other);
}

TEST_CASE("every loop's time is kept, once a run", "[bench][series]") {
  Series series;
  for (int round = 0; round < 2; ++round)
    run_series(
        kLoops, {kLongEnough, kLongEnough}, [](const auto& loops) { return shell(times_of(loops)); }, series);
  CHECK(series.introduction.library == "it");
  CHECK(series.troubles.empty());
  for (const Loop& loop : kLoops) CHECK(series.timings[loop] == std::vector<Timing>{{2.5}, {2.5}});
}

TEST_CASE("a loop that takes too long is cut, with more bytes of its operation; the others run", "[bench][series]") {
  const auto script = [](const std::vector<Loop>& loops) {
    return loops.front() == kSmall ? times_of({kSmall}) + "sleep 1000" : times_of(loops);
  };
  const Series series = series_of({2, kLongEnough}, script);
  CHECK(series.troubles == std::map<Loop, std::string>{{kMiddle, "over 2 s"}, {kLarge, "over 2 s"}});
  CHECK(series.timings.contains(kSmall));
  CHECK(series.timings.contains(kOther));
}

TEST_CASE("a program that talks all the time takes too long all the same", "[bench][series]") {
  const Series series = series_of({0.3, kLongEnough}, [](const auto&) {
    return "echo ready tcp it; i=0; while [ $i -lt 200 ]; do echo busy; sleep 0.1; i=$((i+1)); done";
  });
  CHECK(series.troubles.at(kSmall) == "over 0.3 s");
  CHECK(series.troubles.size() == kLoops.size());
}

TEST_CASE("a program that breaks off is started again without the loop that broke it", "[bench][series]") {
  const auto script = [](const std::vector<Loop>& loops) {
    if (loops.front() == kMiddle) return times_of({}) + "echo -----; echo no memory; echo advice; exit 9";
    return times_of(loops.front() == kSmall ? std::vector{kSmall} : loops);
  };
  const Series series = series_of({kLongEnough, kLongEnough}, script);
  REQUIRE(series.troubles.size() == 1);
  CHECK_THAT(series.troubles.at(kMiddle), ContainsSubstring("exit status"));
  CHECK(series.timings.size() == 3);
}

TEST_CASE("a program that does not start fails every loop, once", "[bench][series]") {
  int starts = 0;
  const Series refused = series_of({kLongEnough, kLongEnough}, [&](const auto&) {
    ++starts;
    return "echo -----; echo 'not allowed: 2 slots'; echo advice; exit 1";
  });
  CHECK(starts == 1);
  CHECK(refused.troubles.size() == kLoops.size());
  CHECK(refused.troubles.at(kOther) == "exit status 1: not allowed: 2 slots");

  const Series silent = series_of({kLongEnough, 0.3}, [](const auto&) { return "sleep 1000"; });
  CHECK(silent.troubles.at(kSmall) == "did not start within 0.3 s");
}

TEST_CASE("a loop in trouble is not tried again, and wrong results are trouble", "[bench][series]") {
  Series series;
  const auto wrong = [](const std::vector<Loop>&) {
    return shell("echo ready tcp it; echo time barrier:0 1 3; echo time gather:8 1 0");
  };
  run_series({kSmall, kOther}, {kLongEnough, kLongEnough}, wrong, series);
  CHECK(series.troubles.at(kSmall) == "3 wrong elements");
  std::vector<Loop> asked;
  const auto again = [&](const std::vector<Loop>& loops) {
    asked = loops;
    return shell(times_of(loops));
  };
  run_series({kSmall, kOther}, {kLongEnough, kLongEnough}, again, series);
  CHECK(asked == std::vector{kOther});
}

TEST_CASE("what was measured with cores apart, before or after, counts where there is nothing else",
          "[bench][series]") {
  double took = 0;
  const auto command = [&took](const std::vector<Loop>& loops) { return shell(times_of(loops, ++took)); };
  const double near = 0.05, far = 0.25;
  std::vector<double> found{far,  far,  // of the first program, before and after: nothing nearer is known yet
                            near, near, near, far, far, far};
  const auto next = [&, at = std::size_t{0}]() mutable { return found.at(at++); };
  CoreDistance distance(next, 0);
  Series series;
  run_series({kSmall}, {}, command, series, distance);
  CHECK(series.times_of(kSmall, distance) == std::vector{1.});
  run_series({kSmall}, {}, command, series, distance);
  run_series({kSmall, kMiddle}, {}, command, series, distance);
  run_series({kSmall}, {}, command, series, distance);
  CHECK(series.timings[kSmall] == std::vector<Timing>{{1, far}, {2, near}, {3, far}, {4, far}});
  CHECK(series.times_of(kSmall, distance) == std::vector{2.});
  CHECK(series.near_times_of(kMiddle, distance).empty());
  CHECK(series.times_of(kMiddle, distance) == std::vector{3.});
  CHECK(series.times_of(kLarge, distance).empty());
}
