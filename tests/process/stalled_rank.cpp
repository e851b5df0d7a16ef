// The last rank lays out its part of an all_reduce, by the algorithm that is named, and is stopped. The others finish
// theirs without it; then it goes on.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <numeric>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/stopped.hpp"

using rondo::testing::is_stopped;

int main(int, char** arguments) {
  auto world = rondo::init();
  const rondo::Options options{rondo::parse_algorithm(arguments[1]).value()};
  const int last = world.size() - 1;
  std::vector<int> running(static_cast<std::size_t>(last));
  std::iota(running.begin(), running.end(), 0);
  auto others = world.subgroup(running);

  const pid_t mine = ::getpid();
  std::vector<pid_t> processes(static_cast<std::size_t>(world.size()));
  all_gather(world, std::span(&mine, 1), std::span(processes));
  std::vector<float> data(300 * static_cast<std::size_t>(world.size()), 1);
  const auto is_sum = [&] { return data.front() == static_cast<float>(world.size()) && data.back() == data.front(); };

  if (world.rank() == last) {
    auto work = iall_reduce(world, std::span(data), rondo::sum, options);
    ::raise(SIGSTOP);
    work.wait();
    return is_sum() ? 0 : 1;
  }
  const pid_t stalled = processes.back();
  while (!is_stopped(stalled)) ::usleep(1000);
  all_reduce(world, std::span(data), rondo::sum, options);
  if (!is_sum()) return 1;
  barrier(others);
  if (world.rank() == 0) {
    if (is_stopped(stalled)) std::printf("finished while rank %d is stopped\n", last);
    std::fflush(stdout);
    ::kill(stalled, SIGCONT);
  }
  return 0;
}
