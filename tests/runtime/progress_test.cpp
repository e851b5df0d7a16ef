#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <rondo/all_reduce.hpp>
#include <rondo/barrier.hpp>
#include <rondo/communicator.hpp>

#include "runtime/access.hpp"
#include "runtime/cores.hpp"
#include "runtime/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cgroup_root.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/skipped.hpp"

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

TEST_CASE("a collective that waits is no deadlock", "[runtime][progress]") {
  Config config;
  config.transport = Transport::unix_socket;
  run_ranks(
      2,
      [](Communicator& world) {
        std::vector<int> data(1000);
        int go = 0;
        if (world.rank() == 1) {
          world.recv(std::span(&go, 1), 0);
          return all_reduce(world, std::span(data), sum);
        }
        Work work = iall_reduce(world, std::span(data), sum);
        {
          detail::Engine& engine = *CommunicatorAccess::engine(world);
          const detail::Progress::Entry entry(engine.progress());
          const detail::Operation* const waits = engine.find_group(detail::kWorldId)->oldest_operation();
          require(waits != nullptr, "it waits");
          const detail::BlockedOn what = waits->blocked_on();
          require(what.call.starts_with("all_reduce(") && what.ranks.empty(), "among others it may be under way");
        }
        world.send(std::span(&go, 1), 1);
        work.wait();
      },
      config);
}

namespace {

/// Of this process, those that a signal may come to.
int threads_that_take_signals() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const auto blocked = std::stoull(line.substr(7), nullptr, 16);
      count += (blocked >> (SIGTERM - 1) & 1) == 0 ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

TEST_CASE("the helper thread takes none of the program's signals", "[runtime][progress]") {
  std::array<int, 2> before{};
  std::array<int, 2> with_helpers{};
  run_ranks(2, [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    int value = 0;
    barrier(world);
    before.at(rank) = threads_that_take_signals();
    barrier(world);
    Work receives = world.irecv(std::span(&value, 1), 1 - world.rank());
    barrier(world);
    with_helpers.at(rank) = threads_that_take_signals();
    barrier(world);
    world.send(std::span(&value, 1), 1 - world.rank());
    receives.wait();
  });
  CHECK(before[0] > 0);
  CHECK(with_helpers == before);
}

namespace {

using Clock = std::chrono::steady_clock;

/// Nothing here takes as long unless it hangs.
constexpr std::chrono::seconds kHangs{30};

// Uses a core, and not the library.
double compute_for(Clock::duration duration) {
  double x = 1;
  for (const auto until = Clock::now() + duration; Clock::now() < until;) {
    for (int i = 0; i < 1000; ++i) x = std::sqrt(x + i);
  }
  return x;
}

/// While it lives, this thread shares a core with one that always computes, and has to wait for its turns. Its priority
/// stays low.
class Starved {
 public:
  Starved() {
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &core_);
    require(::sched_getaffinity(0, sizeof before_, &before_) == 0, "sched_getaffinity");
    require(::sched_setaffinity(0, sizeof core_, &core_) == 0, "sched_setaffinity");
    busy_ = std::thread([this] {
      while (!over_) compute_for(1ms);
    });
    require(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 5) == 0, "setpriority");
  }
  ~Starved() {
    over_ = true;
    busy_.join();
    ::sched_setaffinity(0, sizeof before_, &before_);
  }
  Starved(const Starved&) = delete;
  Starved& operator=(const Starved&) = delete;

 private:
  cpu_set_t core_{}, before_{};
  std::atomic<bool> over_ = false;
  std::thread busy_;
};

/// What `body` ends with in a process of its own whose cgroup has that in cpu.max; kNone: there can be no such process.
constexpr int kNone = 77;
int with_quota(const char* cpu_max, int (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!hide_cgroups()) ::_exit(kNone);
    std::ofstream("/sys/fs/cgroup/cpu.max") << cpu_max;
    try {
      ::_exit(body());
    } catch (...) {
      ::_exit(2);
    }
  }
  int status = 0;
  require(child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status), "waitpid");
  return WEXITSTATUS(status);
}

std::chrono::nanoseconds spin_of_two_ranks() {
  std::atomic<std::chrono::nanoseconds> spin{};
  run_ranks(2, [&](Communicator& world) { spin = CommunicatorAccess::engine(world)->settings().idle.spin; });
  return spin;
}

}  // namespace

TEST_CASE("ranks with fewer cores than they are wait by giving theirs away, others by looking", "[runtime][progress]") {
  const auto idle = [](const Communicator& world) { return CommunicatorAccess::engine(world)->settings().idle; };
  run_ranks(detail::cores_of_host() + 1, [&](Communicator& world) {
    require(idle(world).spin == 0s && idle(world).system_polls == 0, "a core for each is wanted");
  });
  run_ranks(1, [&](Communicator& world) { require(idle(world).spin > 0s, "a core of its own"); });
  Config patient;
  patient.spin = 7us;
  patient.yield = 3ms;
  const auto as_told = [&](Communicator& world) {
    require(idle(world).spin == 7us && idle(world).yield == 3ms, "Config::spin and yield are not kept to");
  };
  run_ranks(1, as_told, patient);
  run_ranks(detail::cores_of_host() + 1, as_told, patient);
}

TEST_CASE("a quota of one core is one core to two ranks", "[runtime][progress]") {
  if (detail::cores_of_host() < 2) return skipped("there are no two cores");
  const auto share = [] { return spin_of_two_ranks() == 0s ? 1 : 0; };
  const int of_one = with_quota("100000 100000", share);
  if (of_one == kNone) return skipped("no mounts of its own can be had here");
  CHECK(of_one == 1);
  CHECK(with_quota("200000 100000", share) == 0);
  CHECK(with_quota("max 100000", share) == 0);
}

TEST_CASE("an all_reduce and a rendezvous send finish while every rank computes", "[runtime][progress]") {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> reduced(1 << 20, 1.0f), sent(1 << 19, 2.0f), received(1 << 19);
    barrier(world);
    Work reduce = iall_reduce(world, std::span(reduced), sum);
    Work send = world.isend(std::span(sent), 1 - world.rank(), Tag{1});
    Work receive = world.irecv(std::span(received), 1 - world.rank(), Tag{1});
    // A wait of no time looks whether it is over, and drives nothing. Looked is seldom: the caller is in a call then.
    // Who had no core for long before the first look may find that all is over.
    const auto over = [&] { return reduce.wait_for(0ns) && send.wait_for(0ns) && receive.wait_for(0ns); };
    for (auto stretch = 100ms; !over(); stretch *= 2) {
      require(stretch < kHangs, "they do not finish meanwhile");
      compute_for(stretch);
    }
    const std::vector<float> sums(reduced.size(), 2.0f);
    require(reduced == sums, "the sums are wrong");
    require(received == sent, "what was received is wrong");
  });
}

TEST_CASE("who had no core when it was to drive hears of what comes all the same", "[runtime][progress]") {
  Config config;
  config.timeout = kHangs;
  const auto body = [](Communicator& world) {
    constexpr int kRounds = 15;
    constexpr Tag kLong{1}, kAsk{2}, kAnswer{3};
    std::vector<char> pending(1 << 20);
    char word = 0;
    if (world.rank() == 0) {
      // What the helper drives for is not over before the end.
      Work send = world.isend(std::span(pending), 1, kLong);
      compute_for(10ms);
      {
        const Starved starved;
        for (int round = 0; round < kRounds; ++round) {
          world.send(std::span(&word, 1), 1, kAsk);
          compute_for(3ms);
          world.recv(std::span(&word, 1), 1, kAnswer);
        }
      }
      world.send(std::span(&word, 1), 1, kAsk);
      send.wait();
    } else {
      for (int round = 0; round < kRounds; ++round) {
        world.recv(std::span(&word, 1), 0, kAsk);
        compute_for(100ms);
        world.send(std::span(&word, 1), 0, kAnswer);
      }
      world.recv(std::span(&word, 1), 0, kAsk);
      world.recv(std::span(pending), 0, kLong);
    }
  };
  run_ranks(2, body, config);
}

TEST_CASE("a thread goes on when its message is there, whatever another one of the rank still waits for",
          "[runtime][progress]") {
  constexpr int kWithout = 100'000;  // messages; where the thread has not gone on by then it waits for the other
  Config config;
  config.transport = Transport::tcp;
  config.unexpected_bytes = std::size_t{1} << 30;
  std::atomic<int> sent = 0;
  std::atomic<bool> on = false;
  int needed = 0;
  run_ranks(
      3,
      [&](Communicator& world) {
        int value = 0;
        const auto data = std::span(&value, 1);
        barrier(world);
        if (world.rank() == 1) {
          for (; !on && sent < kWithout; ++sent) world.send(data, 0, Tag{1});
          needed = sent;
          world.send(data, 0, Tag{3});
          return barrier(world);
        }
        if (world.rank() == 2) {
          while (sent < 1000) std::this_thread::yield();
          world.send(data, 0, Tag{2});
          return barrier(world);
        }
        std::thread other([&] {
          int own = 0;
          world.recv(std::span(&own, 1), 2, Tag{2});
          on = true;
        });
        world.recv(data, 1, Tag{3});
        other.join();
        barrier(world);
      },
      config);
  CHECK(needed < kWithout);
}

TEST_CASE("who is told to spin or to yield for long hears of its deadline all the same", "[runtime][progress]") {
  Config config;
  config.timeout = 500ms;
  if (GENERATE(true, false)) {
    config.yield = kHangs;
  } else {
    config.spin = kHangs;
  }
  std::atomic<bool> over = false;
  const auto begin = Clock::now();
  const auto outcomes = try_ranks(
      2,
      [&](Communicator& world) {
        int value = 0;
        if (world.rank() == 1) {
          while (!over) std::this_thread::yield();
          return;
        }
        try {
          Work never = world.irecv(std::span(&value, 1), 1);
          require(!never.wait_for(1ms), "nothing was sent");
          never.wait();
        } catch (const Error&) {
          over = true;
          throw;
        }
      },
      config);
  CHECK(outcomes[0].code == Errc::timed_out);
  CHECK(Clock::now() - begin < kHangs);
}

TEST_CASE("the longest time that there is means for ever", "[runtime][progress]") {
  Config config;
  config.timeout = std::chrono::nanoseconds::max();
  run_ranks(
      2,
      [](Communicator& world) {
        int value = world.rank();
        if (world.rank() == 0) std::this_thread::sleep_for(20ms);  // late
        barrier(world, {.timeout = std::chrono::nanoseconds::max()});
        Work received = world.irecv(std::span(&value, 1), 1 - world.rank());
        if (world.rank() == 0) std::this_thread::sleep_for(20ms);
        int given = 3;
        Work sent = world.isend(std::span(&given, 1), 1 - world.rank());
        require(received.wait_for(std::chrono::nanoseconds::max()), "it is sent");
        sent.wait();
        if (world.rank() == 0) {
          std::this_thread::sleep_for(20ms);
          world.send(std::span(&given, 1), 1);
        } else {
          world.recv(std::span(&value, 1), 0);
        }
      },
      config);
}
