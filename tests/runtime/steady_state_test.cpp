// What a message costs once everything is warm, counted and not timed: system calls and allocations.

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/idle.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace {

// Per thread, and so per rank.
struct Counts {
  long sent = 0;
  long received = 0;  // calls that brought something
  long epoll_ctl = 0;
  long yields = 0;
  long others = 0;  // to wait, to wake, to look
  long allocations = 0;

  long calls() const { return sent + received + epoll_ctl + yields + others; }
};
thread_local Counts counts;

}  // namespace

// Instead of the C library's, for the whole program.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  ++counts.sent;
  return ::syscall(SYS_sendmsg, socket, message, flags);
}
extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  const ssize_t got = ::syscall(SYS_recvmsg, socket, message, flags);
  if (got > 0) ++counts.received;
  return got;
}
extern "C" int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept {
  ++counts.epoll_ctl;
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, descriptor, event));
}
extern "C" int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  ++counts.others;
  return static_cast<int>(::syscall(SYS_epoll_wait, epoll, events, most, timeout));
}
extern "C" int sched_yield() noexcept {
  ++counts.yields;
  return static_cast<int>(::syscall(SYS_sched_yield));
}
extern "C" ssize_t send(int socket, const void* bytes, std::size_t length, int flags) {
  ++counts.sent;
  return ::syscall(SYS_sendto, socket, bytes, length, flags, nullptr, 0);
}
extern "C" ssize_t recv(int socket, void* bytes, std::size_t length, int flags) {
  const ssize_t got = ::syscall(SYS_recvfrom, socket, bytes, length, flags, nullptr, nullptr);
  if (got > 0) ++counts.received;
  return got;
}
extern "C" int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  ++counts.others;
  return static_cast<int>(::syscall(SYS_accept4, socket, address, length, flags));
}
// Not inlined: g++ would see one half of a pair beside the other of another.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++counts.allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr int kWarm = 600;  // beyond the first credit, which makes its frame
constexpr int kMessages = 1000;
constexpr long kCallsPerLook = 8;  // at the most: is there a connection, a word of the hub or of the other

// From then on there is memory for messages that come before anybody asks for them.
void let_messages_come_early(Communicator& world) {
  constexpr int kEarly = 8;
  const int other = world.rank() ^ 1;
  std::vector<char> data(4096);
  std::vector<Work> sends;
  for (int i = 0; i < kEarly; ++i) sends.push_back(world.isend(std::span(data), other, Tag{1}));
  char mine = 0, theirs = 0;
  world.sendrecv(std::span(&mine, 1), other, std::span(&theirs, 1), other, Tag{2});
  for (int i = 0; i < kEarly; ++i) world.recv(std::span(data), other, Tag{1});
  wait_all(sends);
}

// Runs `step` warm, then counts. Nobody leaves while another still counts.
template <typename Step>
Counts count(Communicator& world, const Step& step) {
  let_messages_come_early(world);
  for (int i = 0; i < kWarm; ++i) step();
  counts = {};
  for (int i = 0; i < kMessages; ++i) step();
  const Counts seen = counts;
  step();  // what comes after the last one may come with it
  barrier(world);
  return seen;
}

void check(const Counts& seen, double sends_per_step, double receives_per_step) {
  const auto text = [](const char* what, long number) { return std::string(what) + ": " + std::to_string(number); };
  require(seen.allocations == 0, text("allocations", seen.allocations));
  require(seen.epoll_ctl == 0, text("epoll_ctl", seen.epoll_ctl));
  // A credit now and then comes on top.
  require(static_cast<double>(seen.sent) <= sends_per_step * kMessages * 1.01, text("sent", seen.sent));
  require(static_cast<double>(seen.received) <= receives_per_step * kMessages * 1.1, text("received", seen.received));
}

Config over(Transport transport) {
  Config config;
  config.transport = transport;
  return config;
}

}  // namespace

TEST_CASE("a message is one call to send and one to receive, no epoll_ctl and no allocation",
          "[runtime][steady_state]") {
  const Transport transport = GENERATE(Transport::tcp, Transport::unix_socket);
  const std::size_t bytes = GENERATE(0, 8, 4096);
  CAPTURE(to_string(transport), bytes);
  run_ranks(
      2,
      [&](Communicator& world) {
        std::vector<char> data(bytes);
        const int other = 1 - world.rank();
        check(count(world,
                    [&] {
                      if (world.rank() == 0) world.send(std::span(data), other);
                      world.recv(std::span(data), other);
                      if (world.rank() == 1) world.send(std::span(data), other);
                    }),
              1, 1);
      },
      over(transport));
}

TEST_CASE("asynchronous messages allocate nothing either", "[runtime][steady_state]") {
  run_ranks(2, [](Communicator& world) {
    std::vector<char> out(64), in(64);
    const int other = 1 - world.rank();
    check(count(world,
                [&] {
                  Work receive = world.irecv(std::span(in), other);
                  Work send = world.isend(std::span(out), other);
                  send.wait();
                  receive.wait();
                }),
          1, 1);
  });
}

TEST_CASE("a small all_reduce by messages is one each way and allocates nothing", "[runtime][steady_state]") {
  run_ranks(
      2,
      [](Communicator& world) {
        double value = 1;
        check(count(world, [&] { all_reduce(world, std::span(&value, 1), max); }), 1, 1);
      },
      over(Transport::unix_socket));
}

TEST_CASE("all_reduce in two levels allocates nothing, short or in slices", "[runtime][steady_state]") {
  run_ranks(4, [](Communicator& world) {
    Communicator comm = on_hosts(world, {0, 0, 1, 1});
    std::vector<char> data(300'000);
    for (const std::size_t length : {std::size_t{2}, data.size()}) {
      const auto step = [&] {
        all_reduce(comm, std::span(data).first(length), max, {.algorithm = Algorithm::two_level});
      };
      const Counts seen = count(comm, step);
      // A message that comes before its receive takes memory which is kept, a few times.
      require(seen.allocations <= kMessages / 20,
              std::to_string(length) + " bytes: " + std::to_string(seen.allocations) + " allocations");
    }
  });
}

// Ranks that wait for as long as it takes without giving their cores away. Now and then, by the clock, they look
// whether the world is still there.
TEST_CASE("messages and collectives in shared memory are no system call and no allocation", "[runtime][steady_state]") {
  Config patient;
  patient.spin = std::chrono::seconds(10);
  const auto body = [](Communicator& world) {
    // A step that is soon done is seldom started: the memory for that is had before.
    const auto check_none = [&](const char* what, const auto& step, const auto& start) {
      for (int i = 0; i < kWarm; ++i) start().wait();
      const auto begin = std::chrono::steady_clock::now();
      const Counts seen = count(world, step);
      const auto looks = (std::chrono::steady_clock::now() - begin) / detail::IdlePolicy{}.look;
      const long calls = seen.calls();
      require(calls <= kMessages / 20 + looks * kCallsPerLook,
              std::string(what) + ": " + std::to_string(calls) + " system calls, " + std::to_string(looks) + " looks");
      require(seen.allocations == 0, std::string(what) + ": " + std::to_string(seen.allocations) + " allocations");
    };
    double value = 1;
    std::vector<char> kilobyte(1024);
    const int other = 1 - world.rank();
    check_none(
        "all_reduce", [&] { all_reduce(world, std::span(&value, 1), max); },
        [&] { return iall_reduce(world, std::span(&value, 1), max); });
    check_none(
        "all_reduce of 1 KiB", [&] { all_reduce(world, std::span(kilobyte), max); },
        [&] { return iall_reduce(world, std::span(kilobyte), max); });
    check_none(
        "broadcast", [&] { broadcast(world, std::span(&value, 1), 0); },
        [&] { return ibroadcast(world, std::span(&value, 1), 0); });
    std::vector<double> both(2);
    const std::span<const double> one(&value, 1);
    check_none(
        "reduce", [&] { reduce(world, std::span(&value, 1), max, 0); },
        [&] { return ireduce(world, std::span(&value, 1), max, 0); });
    check_none(
        "gather", [&] { gather(world, one, std::span(both), 0); },
        [&] { return igather(world, one, std::span(both), 0); });
    check_none(
        "scatter", [&] { scatter(world, std::span(std::as_const(both)), std::span(&value, 1), 0); },
        [&] { return iscatter(world, std::span(std::as_const(both)), std::span(&value, 1), 0); });
    check_none(
        "all_gather", [&] { all_gather(world, one, std::span(both)); },
        [&] { return iall_gather(world, one, std::span(both)); });
    check_none(
        "reduce_scatter", [&] { reduce_scatter(world, std::span(std::as_const(both)), std::span(&value, 1), max); },
        [&] { return ireduce_scatter(world, std::span(std::as_const(both)), std::span(&value, 1), max); });
    check_none(
        "all_to_all", [&] { all_to_all(world, std::span(both)); }, [&] { return iall_to_all(world, std::span(both)); });
    check_none(
        "barrier", [&] { barrier(world); }, [&] { return ibarrier(world); });
    check_none(
        "send and recv",
        [&] {
          if (world.rank() == 0) world.send(std::span(kilobyte), other);
          world.recv(std::span(kilobyte), other);
          if (world.rank() == 1) world.send(std::span(kilobyte), other);
        },
        [&] { return ibarrier(world); });
  };
  run_ranks(2, body, patient);
}

namespace {

// This thread, and those that it starts, on the first of its cores.
class OneCore {
 public:
  OneCore() {
    REQUIRE(::sched_getaffinity(0, sizeof before_, &before_) == 0);
    cpu_set_t first;
    CPU_ZERO(&first);
    for (std::size_t core = 0; CPU_COUNT(&first) == 0; ++core) {
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &first);
    }
    REQUIRE(::sched_setaffinity(0, sizeof first, &first) == 0);
  }
  ~OneCore() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace

// Whom somebody else keeps from its core waits for longer than that, and sleeps: so not every stretch counts.
TEST_CASE("short collectives of ranks that share a core are no system call but to yield it",
          "[runtime][steady_state]") {
  const OneCore one_core;
  run_ranks(4, [](Communicator& world) {
    const auto check_yields = [&](const char* what, const auto& step) {
      constexpr int kStretches = 100;
      for (int i = 0; i < kWarm; ++i) step();
      long yields = 0;
      long least = std::numeric_limits<long>::max();
      for (int stretch = 0; stretch < kStretches; ++stretch) {
        counts = {};
        for (int i = 0; i < kMessages / kStretches; ++i) step();
        yields += counts.yields;
        least = std::min(least, counts.calls() - counts.yields + counts.allocations);
      }
      barrier(world);
      require(yields > 0, std::string(what) + ": nobody yields");
      require(least == 0,
              std::string(what) + ": " + std::to_string(least) + " other calls and allocations at the least");
    };
    double value = 1;
    std::vector<double> all(4);
    const std::span<const double> one(&value, 1);
    check_yields("all_reduce", [&] { all_reduce(world, std::span(&value, 1), max); });
    check_yields("all_gather", [&] { all_gather(world, one, std::span(all)); });
    check_yields("all_to_all", [&] { all_to_all(world, std::span(all)); });
    check_yields("barrier", [&] { barrier(world); });
    check_yields("broadcast and reduce", [&] {
      broadcast(world, std::span(&value, 1), 0);
      reduce(world, std::span(&value, 1), max, 0);
    });
  });
}
