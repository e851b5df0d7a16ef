// Bare sockets between processes. Each case runs in a process of its own, from which the other ranks are forked.

#include "bench/raw/socket_ranks.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <system_error>

#include "bench/raw/forked_ranks.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::bench;

namespace {

using Body = std::function<bool(SocketRanks&)>;

[[noreturn]] void run_as_ranks(int ranks, const Body& body) {
  bool good = false;
  try {
    SocketRanks all(ranks);
    good = body(all);
    if (all.rank() == 0) good = join_ranks() && good;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  _exit(good ? 0 : 1);
}

/// Whether it is true on all ranks. Returns when none of them is left.
bool true_on_all(int ranks, const Body& body) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t first = fork();
  if (first == 0) run_as_ranks(ranks, body);
  bool good = true;
  int status = 0;
  for (pid_t ended = 0; (ended = wait(&status)) > 0;) {
    if (ended == first) good = status == 0;
  }
  return good;
}

}  // namespace

TEST_CASE("between bare sockets more goes each way at the same time than they hold", "[bench]") {
  CHECK(true_on_all(3, [](SocketRanks& ranks) {
    constexpr std::size_t kBytes = std::size_t{12} << 20;
    const std::vector<std::byte> own(kBytes, std::byte(ranks.rank()));
    std::vector<std::vector<std::byte>> theirs(3);
    std::vector<Sent> sent;
    std::vector<Received> received;
    for (int other = 0; other < 3; ++other) {
      if (other == ranks.rank()) continue;
      auto& place = theirs[static_cast<std::size_t>(other)];
      place.resize(kBytes);
      sent.push_back({other, own});
      received.push_back({other, place});
    }
    ranks.exchange(sent, received);
    return std::all_of(received.begin(), received.end(), [](const Received& part) {
      return std::all_of(part.bytes.begin(), part.bytes.end(),
                         [&](std::byte at) { return at == std::byte(part.rank); });
    });
  }));
}

TEST_CASE("values are folded over all bare sockets", "[bench]") {
  const int size = GENERATE(2, 3, 5);
  CHECK(true_on_all(size, [size](SocketRanks& ranks) {
    double most = ranks.rank();
    ranks.fold({&most, 1}, Fabric::Fold::max);
    double sum = 1;
    ranks.fold({&sum, 1}, Fabric::Fold::sum);
    ranks.barrier();
    return most == size - 1 && sum == size;
  }));
}

TEST_CASE("no rank of bare sockets leaves a barrier before all have come", "[bench]") {
  const int size = GENERATE(2, 3, 5);
  std::array<int, 2> pipe_ends{};
  REQUIRE(pipe(pipe_ends.data()) == 0);
  REQUIRE(fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK) == 0);
  CHECK(true_on_all(size, [&](SocketRanks& ranks) {
    const char mark = 'x';
    // The others have to wait for the last.
    if (ranks.rank() == size - 1 && write(pipe_ends[1], &mark, 1) != 1) return false;
    ranks.barrier();
    if (ranks.rank() != 0) return true;
    char got = 0;
    return read(pipe_ends[0], &got, 1) == 1;
  }));
  for (const int end : pipe_ends) close(end);
}

TEST_CASE("when a rank of bare sockets is gone, who waits for it says so, and none is left", "[bench]") {
  CHECK(true_on_all(3, [](SocketRanks& ranks) {
    if (ranks.rank() == 2) _exit(0);
    try {
      ranks.barrier();
    } catch (const std::system_error& error) {
      // Rank 1 waits for rank 0, and is ended by its end.
      _exit(std::string(error.what()).starts_with("receiving from rank 2: ") ? 0 : 1);
    }
    return false;
  }));
}
