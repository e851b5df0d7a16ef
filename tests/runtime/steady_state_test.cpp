// What a message costs once everything is warm, counted and not timed: system calls and allocations.

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/engine.hpp"
#include "tests/support/allocations.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

namespace {

// Per thread, and so per rank.
struct Counts {
  long sent = 0;
  long received = 0;  // calls that brought something
  long allocations = 0;
};
thread_local Counts counts;
thread_local bool uses_epoll = false;

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
  uses_epoll = true;
  return static_cast<int>(::syscall(SYS_epoll_ctl, epoll, operation, descriptor, event));
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

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr int kWarm = 600;  // beyond the first credit, which makes its frame
constexpr int kMessages = 1000;

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
  uses_epoll = false;  // from before the first connection on
  let_messages_come_early(world);
  for (int i = 0; i < kWarm; ++i) step();
  counts = {};
  const long before = allocations();
  for (int i = 0; i < kMessages; ++i) step();
  Counts seen = counts;
  seen.allocations = allocations() - before;
  step();  // what comes after the last one may come with it
  barrier(world);
  return seen;
}

void check(const Counts& seen, double sends_per_step, double receives_per_step) {
  const auto text = [](const char* what, long number) { return std::string(what) + ": " + std::to_string(number); };
  require(seen.allocations == 0, text("allocations", seen.allocations));
  require(!uses_epoll, "in an epoll set, which every message costs something");
  // A credit now and then comes on top.
  require(static_cast<double>(seen.sent) <= sends_per_step * kMessages * 1.01, text("sent", seen.sent));
  require(static_cast<double>(seen.received) <= receives_per_step * kMessages * 1.1, text("received", seen.received));
}

/// Between two ranks a credit comes after 500 messages of so many bytes: a quarter of what one keeps for the other.
Config over(Transport transport, std::size_t bytes) {
  Config config;
  config.transport = transport;
  config.unexpected_bytes = 2 * 4 * 500 * detail::Peer::cost_of(bytes);
  return config;
}

}  // namespace

TEST_CASE("a message is one call to send and one to receive, no epoll set and no allocation",
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
      over(transport, bytes));
}

TEST_CASE("asynchronous messages allocate nothing either", "[runtime][steady_state]") {
  constexpr std::size_t kBytes = 64;
  run_ranks(
      2,
      [](Communicator& world) {
        std::vector<char> out(kBytes), in(kBytes);
        const int other = 1 - world.rank();
        check(count(world,
                    [&] {
                      Work receive = world.irecv(std::span(in), other);
                      Work send = world.isend(std::span(out), other);
                      send.wait();
                      receive.wait();
                    }),
              1, 1);
      },
      over(Transport::automatic, kBytes));
}

TEST_CASE("a small all_reduce by messages is one each way and allocates nothing", "[runtime][steady_state]") {
  run_ranks(
      2,
      [](Communicator& world) {
        double value = 1;
        check(count(world, [&] { all_reduce(world, std::span(&value, 1), max); }), 1, 1);
      },
      over(Transport::unix_socket, sizeof(double)));
}
