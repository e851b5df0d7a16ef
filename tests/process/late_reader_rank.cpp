// Rank 1 comes to a collective that reads rank 0's memory where it lies, and is stopped. Rank 0 comes, gives up, and
// uses its memory for something else. Then rank 1 goes on, and must hear of that. The collective: by the algorithm that
// is named, in memory of its own or ("mapped") in a buffer that all ranks map.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/stopped.hpp"

namespace {

constexpr std::size_t kCount = std::size_t{1} << 18;

}  // namespace

int main(int, char** arguments) {
  auto world = rondo::init();
  auto after = world.dup();
  const rondo::Algorithm algorithm = rondo::parse_algorithm(arguments[1]).value();
  rondo::SharedBuffer<float> mapped;
  std::vector<float> own;
  if (std::string(arguments[2]) == "mapped") {
    mapped = rondo::allocate<float>(world, kCount);
  } else {
    own.resize(kCount);
  }
  const std::span<float> data = mapped.size() > 0 ? mapped.span() : std::span(own);
  const auto start = [&](std::optional<std::chrono::nanoseconds> timeout) {
    rondo::Options options{algorithm};
    options.timeout = timeout;
    std::fill(data.begin(), data.end(), world.rank() == 0 ? 7.0F : 0.0F);
    return algorithm == rondo::Algorithm::sliced ? iall_reduce(world, data, rondo::sum, options)
                                                 : ibroadcast(world, data, 0, options);
  };
  start({}).wait();  // what is found out the first time is known

  const pid_t mine = ::getpid();
  std::array<pid_t, 2> processes{};
  all_gather(after, std::span(&mine, 1), std::span(processes));
  if (world.rank() == 0) {
    while (!rondo::testing::is_stopped(processes[1])) ::usleep(1000);
    try {
      start(std::chrono::milliseconds(300)).wait();
      std::printf("it did not give up\n");
    } catch (const rondo::Error& error) {
      std::printf("gave up: %s\n", error.what());
    }
    std::fill(data.begin(), data.end(), -1.0F);
    ::kill(processes[1], SIGCONT);
  } else {
    auto work = start(std::chrono::minutes(1));
    ::raise(SIGSTOP);
    try {
      work.wait();
      const auto wrong = std::count_if(data.begin(), data.end(), [](float value) { return value != 7.0F; });
      std::printf("returned, with %td wrong\n", wrong);
    } catch (const rondo::Error& error) {
      std::printf("heard: %s\n", error.what());
    }
  }
  std::fflush(stdout);
  barrier(after);
  return 0;
}
