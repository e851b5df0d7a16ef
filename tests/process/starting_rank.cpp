// Says how many milliseconds after main of the last rank the first barrier was over on all.
#include <chrono>
#include <cstdio>

#include <rondo/rondo.hpp>

namespace {

/// By a clock that all processes of a host share.
double milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main() {
  double started = milliseconds();
  auto world = rondo::init();
  barrier(world);
  double met = milliseconds();
  all_reduce(world, std::span(&started, 1), rondo::max);
  all_reduce(world, std::span(&met, 1), rondo::max);
  if (world.rank() == 0) std::printf("%.1f\n", met - started);
}
