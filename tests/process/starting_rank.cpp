// Says how many milliseconds after the launch of the last rank the first barrier was over on all, at the most: the
// system gives the time of a process's launch, before its program was even loaded, in hundredths of a second.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <rondo/rondo.hpp>

namespace {

// In the line that /proc has of a process, of those behind its name.
constexpr int kFieldOfStart = 19;

/// Since the machine was started, as the times of processes are.
double milliseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// When this process was forked off, rounded down.
double milliseconds_of_launch() {
  std::string line;
  std::getline(std::ifstream("/proc/self/stat"), line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  const std::istream_iterator<std::string> first(fields);
  return std::stod(*std::next(first, kFieldOfStart)) * 1e3 / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

int main() {
  auto world = rondo::init();
  barrier(world);
  double met = milliseconds_now();
  double launched = milliseconds_of_launch();
  all_reduce(world, std::span(&launched, 1), rondo::max);
  all_reduce(world, std::span(&met, 1), rondo::max);
  if (world.rank() == 0) std::printf("%.1f\n", met - launched);
}
