// All ranks wait for rank 0, half of them in a receive, the others in a barrier, and rank 0 for what comes last. It
// prints how much of a core all of them use together meanwhile.
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <vector>

#include <rondo/rondo.hpp>

namespace {

using namespace std::chrono_literals;

/// That all threads of these processes have had together.
double cpu_seconds(const std::vector<long>& processes) {
  double seconds = 0;
  for (const long process : processes) {
    clockid_t clock{};
    timespec used{};
    if (::clock_getcpuclockid(static_cast<pid_t>(process), &clock) != 0 || ::clock_gettime(clock, &used) != 0)
      throw std::runtime_error("a process without a clock");
    seconds += static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
  }
  return seconds;
}

/// Prints it for each half of a minute.
void print_shares_of_core(const std::vector<long>& processes, rondo::Work& late) {
  const auto wait = [&](auto time) {
    if (late.wait_for(time)) throw std::runtime_error("nobody was to send");
  };
  wait(200ms);  // to fall asleep is not counted, what sleeping costs is
  for (int half = 0; half < 2; ++half) {
    constexpr std::chrono::seconds kHalf = 30s;
    const double before = cpu_seconds(processes);
    wait(kHalf);
    std::printf("%f\n", (cpu_seconds(processes) - before) / static_cast<double>(kHalf.count()));
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  auto world = rondo::init();
  const int last = world.size() - 1;
  const long mine = ::getpid();
  std::vector<long> processes(static_cast<std::size_t>(world.size()));
  all_gather(world, std::span(&mine, 1), std::span(processes));
  barrier(world);

  char word = 0;
  if (world.rank() == 0) {
    rondo::Work late = world.irecv(std::span(&word, 1), last);
    print_shares_of_core(processes, late);
    char go = 0;
    for (int rank = 1; rank <= last; rank += 2) world.send(std::span(&go, 1), rank);
    barrier(world);
    late.wait();
  } else {
    if (world.rank() % 2 == 1) world.recv(std::span(&word, 1), 0);
    barrier(world);
    if (world.rank() == last) world.send(std::span(&word, 1), 0);
  }
}
