#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Exit statuses of rondo-run that are not a rank's own.
inline constexpr int kTimedOut = 124;
inline constexpr int kLauncherError = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

/// The launcher cannot do what was asked; `status` is what rondo-run exits with.
struct LaunchError : std::runtime_error {
  explicit LaunchError(const std::string& text, int exit_status = kLauncherError)
      : std::runtime_error(text), status(exit_status) {}
  int status;
};

/// LaunchError with the words of `errno`.
[[noreturn]] void throw_errno(const std::string& what);

/// What rondo-run was started with, changes for itself, and hands to the ranks as it was.
struct Inherited {
  sigset_t mask{};
  bool ignores_sigpipe = false;
  rlimit files{};

  /// Also prepares this process: standard descriptors open, SIGPIPE ignored, SIGCHLD heard, descriptors up to the hard
  /// limit.
  static Inherited take();
};

/// True when the process was started with this signal ignored (`nohup`, a background job of a script): it stays
/// ignored.
bool is_ignored(int signal);

struct Pipe {
  Descriptor read, write;
};

/// Both ends are closed on exec.
Pipe make_pipe();
std::pair<Descriptor, Descriptor> make_socket_pair(int type);

/// The children of a process now, from /proc (the kernel's own list of them is an option that many kernels lack).
std::vector<pid_t> children_of(pid_t parent);

/// Sends SIGKILL to every child of this process but `spared`; their own children become ours by that (in a subreaper),
/// so reaping and calling this again until it returns false ends all descendants. Only to children, because that cannot
/// hit a stranger: until their parent has reaped them, their numbers are not reused.
bool kill_children(const std::vector<pid_t>& spared);

/// 11 -> "SIGSEGV".
std::string signal_name(int signal);

/// What `waitpid` told: "exited with status 3", "killed by SIGSEGV (core dumped)".
std::string describe_end(int wait_status);

/// 3, or 128 + signal.
int exit_status_of(int wait_status);

}  // namespace rondo::detail
