// A rank that does without shared memory: unshared_rank WHAT RANK. That rank, once all pairs of ranks have met, can
// make or map none any more: its files must be short (`files`), it gets no descriptor (`descriptors`), or no memory
// (`memory`). Then all do collectives and allocate. `cgroup`: that of all leaves them little. `files-before` and
// `cgroup-before`: of all ranks, before they meet. `one-pair`: of the last, before the first meets it.
// unshared_rank reading RANK: from then on it may not read the memory of other processes, and has long messages and
// blocks of rank 0's.
// unshared_rank refusing RANK: once all have met it cannot tell whose process is at the other end of a Unix socket, and
// takes it for another user's.
// unshared_rank without-reading PROGRAM...: that program, which may not read the memory of other processes.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/cgroup_root.hpp"
#include "tests/support/deny.hpp"

using namespace rondo;

namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

void limit(auto resource, rlim_t most) {
  rlimit limits{};
  require(::getrlimit(resource, &limits) == 0, "getrlimit");
  limits.rlim_cur = most;
  require(::setrlimit(resource, &limits) == 0, "setrlimit");
}

constexpr rlim_t kShortFiles = 65536;
constexpr std::size_t kForAllElse = 2 << 20;  // less than what three ranks share
constexpr std::size_t kLimit = std::size_t{1} << 30;

/// In the eyes of its cgroup.
void use_memory(std::size_t bytes) { std::ofstream("/sys/fs/cgroup/memory.current") << bytes; }

void deny(std::string_view what) {
  if (what == "files") return limit(RLIMIT_FSIZE, kShortFiles);
  if (what == "cgroup") return use_memory(kLimit - kForAllElse);
  if (what == "descriptors") {
    const int next = ::dup(STDERR_FILENO);
    require(next >= 0 && ::close(next) == 0, "dup");
    return limit(RLIMIT_NOFILE, static_cast<rlim_t>(next));
  }
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  limit(RLIMIT_AS, pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kForAllElse);
}

void meet(Communicator& world, int first, int second) {
  std::array<int, 1> word{};
  if (world.rank() == first) world.send(std::span<const int>(word), second);
  if (world.rank() == second) world.recv(std::span(word), any_source);
}

/// Who sends first connects.
void meet(Communicator& world) {
  for (int second = 0; second < world.size(); ++second) {
    for (int first = second + 1; first < world.size(); ++first) meet(world, first, second);
  }
}

void check_sum(Communicator& world, std::span<int> data) {
  std::fill(data.begin(), data.end(), world.rank() + 1);
  all_reduce(world, data, sum);
  const int wanted = world.size() * (world.size() + 1) / 2;
  require(std::all_of(data.begin(), data.end(), [&](int got) { return got == wanted; }), "sum");
}

void work(Communicator& world) {
  std::vector<int> own(1000);
  check_sum(world, own);
  Communicator again = world.dup();
  check_sum(again, own);
  for (const std::size_t count : {200'000, 400'000}) {
    auto buffer = allocate<int>(world, count);
    check_sum(world, buffer.span().last(own.size()));
  }
}

/// Rank 0's data goes to the others.
void hand_out(Communicator& world) {
  constexpr std::size_t kCount = 100'000;
  const std::vector<int> all(kCount * static_cast<std::size_t>(world.size()), 7);
  std::vector<int> own(kCount);
  if (world.rank() == 1) world.recv(std::span(own), 0);
  if (world.rank() == 0) world.send(std::span(all).first(kCount), 1);
  require(world.rank() != 1 || own.back() == 7, "message");
  own.back() = 0;
  scatter(world, std::span(all), std::span(own), 0, {rondo::Algorithm::fetched});
  require(own.front() == 7 && own.back() == 7, "scatter");
}

int run(std::string_view what, int rank) {
  if (what == "files-before") limit(RLIMIT_FSIZE, kShortFiles);
  if (what.starts_with("cgroup")) {
    require(testing::hide_cgroups(), "hide_cgroups");
    std::ofstream("/sys/fs/cgroup/memory.max") << kLimit;
    std::ofstream("/sys/fs/cgroup/memory.swap.max") << 0;
    use_memory(what == "cgroup-before" ? kLimit : 0);
  }
  // As of ranks each in a container: they listen on TCP ports, too.
  if (what == "refusing" && (::setenv("RONDO_LOCAL_SIZE", "1", 1) != 0 || ::setenv("RONDO_LOCAL_RANK", "0", 1) != 0))
    return 1;
  auto world = init();
  if (what == "refusing" && world.rank() == rank) testing::deny(__NR_getsockopt);
  if (what == "one-pair") {
    const int last = world.size() - 1;
    for (int second = 1; second < last; ++second) meet(world, second, last);
    if (world.rank() == last) limit(RLIMIT_FSIZE, kShortFiles);
  }
  meet(world);
  if (what == "reading") {
    hand_out(world);
    if (world.rank() == rank) testing::deny_reading();
    for (int i = 0; i < 10; ++i) hand_out(world);
    return 0;
  }
  if (what == "cgroup-before") use_memory(0);
  const bool later = what == "files" || what == "descriptors" || what == "memory" || what == "cgroup";
  if (later && (world.rank() == rank || what == "cgroup")) deny(what);
  try {
    work(world);
  } catch (const rondo::Error& error) {
    // Nobody ends before all have said so: a launcher stops the others as soon as one has failed.
    std::fprintf(stderr, "%s\n", error.what());
    barrier(world);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string_view what = argc > 2 ? argv[1] : "";
    if (what == "without-reading") {
      testing::deny_reading();
      ::execv(argv[2], argv + 2);
      return 127;
    }
    return argc == 3 ? run(what, std::stoi(argv[2])) : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
