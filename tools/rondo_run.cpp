// rondo-run: starts the ranks of a job on this machine.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "tools/attempt.hpp"
#include "tools/core_binding.hpp"
#include "tools/guardian.hpp"
#include "tools/process.hpp"
#include "tools/rank_environment.hpp"
#include "tools/run_options.hpp"
#include "tools/signals.hpp"
#include "transport/handshake.hpp"

namespace rondo::detail {
namespace {

std::string random_id() {
  constexpr std::size_t kIdBytes = 8;
  const JobKey random = JobKey::random();
  std::string id;
  for (std::size_t i = 0; i < kIdBytes; ++i) id += fmt::format("{:02x}", random.bytes[i]);
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Plan make_plan(RunOptions options, const Inherited& inherited) {
  Plan plan;
  plan.program = find_program(options.command.front());
  plan.inherited = inherited;
  plan.facts = {random_id(), options.size, options.max_restarts, find_free_port()};
  plan.host = host_name();
  if (options.bind_to_core) plan.cores = bindable_cores();
  if (options.timeout) plan.deadline = std::chrono::steady_clock::now() + *options.timeout;
  plan.options = std::move(options);
  return plan;
}

void print_plan(const Plan& plan) {
  for (int rank = 0; rank < plan.options.size; ++rank) {
    fmt::print("[{}]", rank);
    for (const auto& [name, value] : rank_variables(plan.facts, rank, 0))
      fmt::print(" {}={}", name, shell_quoted(value));
    for (const auto& [name, value] : plan.options.exports) fmt::print(" {}={}", name, shell_quoted(value));
    if (!plan.cores.empty()) {
      cpu_set_t cpus = plan.cores[static_cast<std::size_t>(rank) % plan.cores.size()].cpus;
      fmt::print(" taskset -c");
      const char* separator = " ";
      for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &cpus)) continue;
        fmt::print("{}{}", separator, cpu);
        separator = ",";
      }
    }
    fmt::print(" {}", shell_quoted(plan.program));
    for (std::size_t i = 1; i < plan.options.command.size(); ++i)
      fmt::print(" {}", shell_quoted(plan.options.command[i]));
    fmt::print("\n");
  }
}

/// Also where nobody reads that any more: nothing else is to come of it.
void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

bool is_writable(int fd) {
  pollfd room{fd, POLLOUT, 0};
  return ::poll(&room, 1, 0) == 1;
}

/// A rank finds its control connection on a fixed number, and needs some to live.
void check_files(const rlimit& files) {
  constexpr rlim_t kLeast = kControlDescriptor + 28;
  if (files.rlim_max >= kLeast) return;
  throw LaunchError(
      fmt::format("a process may have {} files open (ulimit -Hn), wanted at least {}", files.rlim_max, kLeast));
}

int run_job(const Plan& plan) {
  check_files(plan.inherited.files);
  const Signals signals;
  for (int number = 0;; ++number) {
    std::optional<Attempt> attempt(std::in_place, plan, number, signals);
    const Attempt::Result result = attempt->run();
    const bool again = result.kind == Outcome::Kind::rank_failed && number < plan.options.max_restarts;
    const int told = result.told_to_stop != 0 ? result.told_to_stop : signals.next_to_stop();
    const Signals::Unheard unheard(signals);
    // Who leaves because nobody reads must not wait for the same reader.
    if (!result.leave_at_once || is_writable(STDERR_FILENO)) say(result.summary);
    if (result.leave_at_once) ::_exit(again && told != 0 ? 128 + told : result.status);
    attempt.reset();
    if (!again) return result.status;
    if (told != 0) {
      say(fmt::format("rondo-run: told to stop by {}, so the ranks do not start again\n", signal_name(told)));
      return 128 + told;
    }
    say("rondo-run: all ranks start again\n");
  }
}

int run(int argc, const char* const* argv) {
  const Inherited inherited = Inherited::take();
  std::optional<int> done;
  RunOptions options = parse_options(argc, argv, done);
  if (done) return *done;
  const bool dry_run = options.dry_run;
  const Plan plan = make_plan(std::move(options), inherited);
  if (!dry_run) return run_job(plan);
  print_plan(plan);
  if (std::fflush(stdout) != 0) throw_errno("cannot write to standard output");
  return 0;
}

}  // namespace
}  // namespace rondo::detail

int main(int argc, char** argv) try {
  return rondo::detail::run(argc, argv);
} catch (const rondo::detail::LaunchError& error) {
  rondo::detail::say(fmt::format("rondo-run: {}\n", error.what()));
  return error.status;
} catch (const std::exception& error) {
  rondo::detail::say(fmt::format("rondo-run: {}\n", error.what()));
  return rondo::detail::kLauncherError;
}
