// Messages and collectives of a few bytes in shared memory, once all is warm: no system call, whatever it is. The
// kernel itself tells of them (Syscall User Dispatch).

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/cores.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/collective_calls.hpp"
#include "tests/support/on_core.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/stretches.hpp"

namespace {

// Per thread, and so per rank.
thread_local volatile char dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
constexpr long kNone = -1;
thread_local volatile long first_call = kNone;
thread_local long yields = 0;

// Notes the number of the call, and makes it: the program counter stands behind the instruction `syscall`.
void note_call(int, siginfo_t* info, void* context) {
  constexpr int kInstruction = 2;
  dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
  first_call = info->si_syscall;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] -= kInstruction;
}

/// While it lives, the first system call of this thread is noted. False: the kernel cannot.
class Watch {
 public:
  Watch() {
    first_call = kNone;
    watches_ = ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &dispatch) == 0;
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

// Instead of the C library's, for the whole program: counted, not noted.
extern "C" int sched_yield() noexcept {
  const char before = dispatch;
  dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
  ++yields;
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
  {
    const Watch watch;
    if (watch) static_cast<void>(std::chrono::steady_clock::now());
    if (!watch || first_call != kNone) {
      WARN("skipped: " << (watch ? "the clock is a system call" : "this kernel does not tell of system calls"));
      return false;
    }
    ::syscall(SYS_getppid);
  }
  REQUIRE(first_call == SYS_getppid);
  return true;
}

/// Ranks that share a core yield it; that counts as no call.
void check_none(Communicator& world, const std::string& what, const std::function<void()>& step, bool one_core) {
  for (int i = 0; i < kWarm; ++i) step();
  std::set<long> calls;  // the first of each stretch
  long all_yields = 0;
  const auto is_quiet = [&]() -> std::optional<bool> {
    yields = 0;
    long call = kNone;
    std::chrono::steady_clock::duration longest{};
    {
      const Watch watch;
      longest = longest_of(step);
      call = first_call;
    }
    all_yields += yields;
    if (call == kNone && !one_core && yields > 0) call = SYS_sched_yield;
    if (call == kNone) return true;
    calls.insert(call);
    if (longest > kDisturbed) return std::nullopt;
    return false;
  };
  const bool rests = comes_to_rest(world, is_quiet, kStretches);
  std::string numbers;
  for (const long call : calls) numbers += ' ' + std::to_string(call);
  require(rests, what + ": system calls, again and again, by number" + numbers);
  require(!one_core || all_yields > 0, what + ": nobody yields");
}

void check_collectives(Communicator& world, bool one_core) {
  for (const std::size_t share : {std::size_t{1}, 1024 / static_cast<std::size_t>(world.size()) / sizeof(double)}) {
    std::vector<double> own(share), in(share * static_cast<std::size_t>(world.size())), all(in);
    const std::string bytes = " of " + std::to_string(all.size() * sizeof(double)) + " bytes";
    for (const auto& [name, call, start] : collective_calls(world, own, in, all))
      check_none(world, name + bytes, call, one_core);
  }
}

void check_everything(Communicator& world, bool one_core) {
  check_collectives(world, one_core);
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
    check_none(world, "send and recv" + bytes, around, one_core);
  }
  double value = 1;
  check_none(
      world, "all_reduce of 8 bytes", [&] { all_reduce(world, std::span(&value, 1), sum); }, one_core);
}

}  // namespace

TEST_CASE("short messages and collectives of ranks with a core each are no system call", "[runtime][system_calls]") {
  if (!calls_are_noted()) return;
  if (detail::usable_cores() < 2) {
    WARN("skipped: there are no two cores");
    return;
  }
  run_ranks(2, [](Communicator& world) {
    const OnCore own(world.rank());
    check_everything(world, false);
  });
}

TEST_CASE("short messages and collectives of ranks that share a core are no system call but to yield it",
          "[runtime][system_calls]") {
  if (!calls_are_noted()) return;
  const OnCore first(0);
  run_ranks(4, [](Communicator& world) { check_everything(world, true); });
}

TEST_CASE("nor are collectives of eight ranks that share two cores", "[runtime][system_calls]") {
  if (!calls_are_noted()) return;
  if (detail::usable_cores() < 2) {
    WARN("skipped: there are no two cores");
    return;
  }
  run_ranks(8, [](Communicator& world) {
    const OnCore home(world.rank() / 4);
    check_collectives(world, true);
  });
}

TEST_CASE("ranks that are told to sleep instead of yielding do not yield", "[runtime][system_calls]") {
  const OnCore first(0);
  Config sleeping;
  sleeping.yield = {};
  run_ranks(
      4,
      [](Communicator& world) {
        barrier(world);
        yields = 0;
        for (int i = 0; i < 100; ++i) barrier(world);
        require(yields == 0, "it yielded");
      },
      sleeping);
}
