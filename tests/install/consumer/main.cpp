// A program of somebody else: nothing but the installed headers and the library.
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

int main() {
  auto world = rondo::init();
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), world.rank());
  rondo::all_reduce(world, std::span(values), rondo::sum);
  auto group = world.subgroup({0});
  try {
    world.isend(std::span(values), world.size()).wait();
  } catch (const rondo::Error& error) {
    const bool sums = values[1] == world.size() * (world.size() - 1) / 2.0 + world.size();
    std::printf("consumer of rondo %s: rank %d of %d, %s\n", rondo::version().c_str(), world.rank(), world.size(),
                sums && error.code() == rondo::Errc::invalid_argument ? "good" : "bad");
  }
}
