// Messages and collectives of a few bytes in shared memory, once all is warm: no system call, whatever it is. The
// kernel itself tells of them (Syscall User Dispatch).

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/cores.hpp"
#include "runtime/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/collective_calls.hpp"
#include "tests/support/on_core.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/skipped.hpp"
#include "tests/support/stretches.hpp"

namespace {

// Per thread, and so per rank.
constexpr std::size_t kNumbers = 512;
thread_local volatile char dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
thread_local std::array<long, kNumbers> made{};  // calls, by number; the last one is for all from there on

long& made_of(long number) { return made.at(std::min(static_cast<std::size_t>(number), kNumbers - 1)); }

// Counts the call, and makes it instead of the instruction that was to; not one that changes what a handler comes back
// to, as a new thread or another mask of signals would.
void note_call(int, siginfo_t* info, void* context) {
  const int error = errno;
  dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
  ++made_of(info->si_syscall);
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long result = ::syscall(info->si_syscall, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                registers[REG_R10], registers[REG_R8], registers[REG_R9]);
  registers[REG_RAX] = result == -1 ? -errno : result;
  dispatch = SYSCALL_DISPATCH_FILTER_BLOCK;
  errno = error;
}

/// The way back from a handler is a call, too. It is the only one there: where the C library has it.
std::uintptr_t way_back() {
  struct {
    void* handler;
    unsigned long flags;
    std::uintptr_t way_back;
    std::uint64_t mask;
  } action{};
  ::syscall(SYS_rt_sigaction, SIGSYS, nullptr, &action, sizeof action.mask);
  return action.way_back;
}

/// While it lives, the system calls of this thread are counted. False: the kernel cannot.
class Watch {
 public:
  Watch() {
    constexpr std::size_t kInstructions = 16;
    made.fill(0);
    watches_ = ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, way_back(), kInstructions, &dispatch) == 0;
    dispatch = SYSCALL_DISPATCH_FILTER_BLOCK;
  }
  ~Watch() {
    dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
    ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  explicit operator bool() const { return watches_; }

 private:
  bool watches_;
};

}  // namespace

// Instead of the C library's, for the whole program: a signal for each of these would take longer than they do.
extern "C" int sched_yield() noexcept {
  const char before = dispatch;
  dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
  ++made_of(SYS_sched_yield);
  const auto result = static_cast<int>(::syscall(SYS_sched_yield));
  dispatch = before;
  return result;
}

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr int kWarm = 600;                     // beyond the first credit, which makes its frame
constexpr int kSteps = SANITIZED ? 100 : 300;  // in a stretch
constexpr int kStretches = 5;                  // in a row
// Who has waited so long for one step was kept from its core, or another was.
constexpr std::chrono::milliseconds kDisturbed{1};

/// Does the steps of a stretch; returns what the longest took.
std::chrono::steady_clock::duration longest_of(const std::function<void()>& step) {
  std::chrono::steady_clock::duration longest{};
  auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) {
    step();
    const auto now = std::chrono::steady_clock::now();
    longest = std::max(longest, now - before);
    before = now;
  }
  return longest;
}

/// Skips the test where the kernel does not tell, or where it takes a call to know what time it is.
bool calls_are_noted() {
  struct sigaction noting {};
  noting.sa_sigaction = note_call;
  noting.sa_flags = SA_SIGINFO;
  REQUIRE(::sigaction(SIGSYS, &noting, nullptr) == 0);
  const Watch watch;
  static_cast<void>(std::chrono::steady_clock::now());
  const bool clock = std::any_of(made.begin(), made.end(), [](long calls) { return calls > 0; });
  if (!watch || clock) {
    skipped(watch ? "the clock is a system call" : "this kernel does not tell of system calls");
    return false;
  }
  constexpr int kCalls = 3;
  for (int i = 0; i < kCalls; ++i) REQUIRE(::syscall(SYS_getppid) == ::getppid());
  REQUIRE(made_of(SYS_getppid) == 2 * kCalls);
  return true;
}

/// What ranks may do beside nothing at all.
enum class Cores {
  own,     ///< each has one
  shared,  ///< they yield it
  dealt    ///< and come back to theirs: once a millisecond at the most, in some calls
};
constexpr long kCallsOfMove = 5;

void check_none(Communicator& world, const std::string& what, const std::function<void()>& step, Cores cores) {
  for (int i = 0; i < kWarm; ++i) step();
  std::set<long> calls;
  long yields = 0, moves = 0;
  const auto began = std::chrono::steady_clock::now();
  const auto is_quiet = [&]() -> std::optional<bool> {
    std::chrono::steady_clock::duration longest{};
    {
      const Watch watch;
      longest = longest_of(step);
    }
    if (cores != Cores::own) yields += std::exchange(made_of(SYS_sched_yield), 0);
    if (cores == Cores::dealt) {
      moves += std::exchange(made_of(SYS_sched_getaffinity), 0);
      moves += std::exchange(made_of(SYS_sched_setaffinity), 0);
    }
    bool quiet = true;
    for (std::size_t number = 0; number < kNumbers; ++number) {
      if (made[number] == 0) continue;
      calls.insert(static_cast<long>(number));
      quiet = false;
    }
    if (!quiet && longest > kDisturbed) return std::nullopt;
    return quiet;
  };
  const bool rests = comes_to_rest(world, is_quiet, kStretches);
  std::string numbers;
  for (const long call : calls) numbers += ' ' + std::to_string(call);
  require(rests, what + ": system calls, again and again, by number" + numbers);
  require(cores == Cores::own || yields > 0, what + ": nobody yields");
  const auto took = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
  require(moves <= kCallsOfMove * (took.count() + 1),
          what + ": " + std::to_string(moves) + " calls to come back in " + std::to_string(took.count()) + " ms");
}

void check_collectives(Communicator& world, Cores cores) {
  for (const std::size_t share : {std::size_t{1}, 1024 / static_cast<std::size_t>(world.size()) / sizeof(double)}) {
    std::vector<double> own(share), in(share * static_cast<std::size_t>(world.size())), all(in);
    const std::string bytes = " of " + std::to_string(all.size() * sizeof(double)) + " bytes";
    for (const auto& [name, call, start] : collective_calls(world, own, in, all))
      check_none(world, name + bytes, call, cores);
  }
}

/// A credit comes after 500 short messages.
Config soon_credit(int ranks) {
  Config config;
  config.unexpected_bytes = static_cast<std::size_t>(ranks) * 4 * 500 * detail::Peer::cost_of(sizeof(double));
  return config;
}

void check_everything(Communicator& world, Cores cores) {
  check_collectives(world, cores);
  const auto size = static_cast<std::size_t>(world.size());
  for (const std::size_t share : {std::size_t{1}, 1024 / size / sizeof(double)}) {
    std::vector<double> own(share);
    const std::string bytes = " of " + std::to_string(share * sizeof(double)) + " bytes";
    const int left = (world.rank() + world.size() - 1) % world.size(), right = (world.rank() + 1) % world.size();
    const auto around = [&] {
      if (world.rank() == 0) world.send(std::span(own), right);
      world.recv(std::span(own), left);
      if (world.rank() != 0) world.send(std::span(own), right);
    };
    check_none(world, "send and recv" + bytes, around, cores);
  }
  double value = 1;
  check_none(
      world, "all_reduce of 8 bytes", [&] { all_reduce(world, std::span(&value, 1), sum); }, cores);
}

}  // namespace

TEST_CASE("short messages and collectives of ranks with a core each are no system call", "[runtime][system_calls]") {
  if (!calls_are_noted()) return;
  if (detail::usable_cores() < 2) {
    skipped("there are no two cores");
    return;
  }
  run_ranks(
      2,
      [](Communicator& world) {
        const OnCore own(world.rank());
        check_everything(world, Cores::own);
      },
      soon_credit(2));
}

TEST_CASE("short messages and collectives of ranks that share a core are no system call but to yield it",
          "[runtime][system_calls]") {
  if (!calls_are_noted()) return;
  const OnCore first(0);
  run_ranks(
      4, [](Communicator& world) { check_everything(world, Cores::shared); }, soon_credit(4));
}

TEST_CASE("nor are collectives of eight ranks that share two cores", "[runtime][system_calls]") {
  if (!calls_are_noted()) return;
  if (detail::usable_cores() < 2) {
    skipped("there are no two cores");
    return;
  }
  run_ranks(8, [](Communicator& world) {
    const OnCore home(world.rank() / 4);
    check_collectives(world, Cores::shared);
  });
}

TEST_CASE("nor are they where the system may move the ranks about, but to come back", "[runtime][system_calls]") {
  if (!calls_are_noted()) return;
  const int ranks = GENERATE(4, 8);
  CAPTURE(ranks);
  if (ranks <= detail::usable_cores()) {
    if (ranks == 8) skipped("there are cores to spare");
    return;
  }
  run_ranks(ranks, [](Communicator& world) { check_collectives(world, Cores::dealt); });
}

TEST_CASE("ranks that are told to sleep instead of yielding do not yield", "[runtime][system_calls]") {
  const OnCore first(0);
  Config sleeping;
  sleeping.yield = {};
  run_ranks(
      4,
      [](Communicator& world) {
        barrier(world);
        made_of(SYS_sched_yield) = 0;
        for (int i = 0; i < 100; ++i) barrier(world);
        require(made_of(SYS_sched_yield) == 0, "it yielded");
      },
      sleeping);
}
