#include "tools/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include <fmt/format.h>

namespace rondo::detail {

void throw_errno(const std::string& what) { throw LaunchError(fmt::format("{}: {}", what, std::strerror(errno))); }

namespace {

/// Where 0, 1 or 2 is closed, our own pipes would land there and be taken for the terminal.
void open_standard_descriptors() {
  for (int fd : {0, 1, 2}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) throw_errno("cannot open /dev/null");
  }
}

pid_t parent_from_stat(const std::string& stat) {
  // "pid (any text) state parent ..."; the text may hold blanks and brackets.
  const auto bracket = stat.rfind(')');
  if (bracket == std::string::npos || bracket + 4 >= stat.size()) return 0;
  pid_t parent = 0;
  std::from_chars(stat.data() + bracket + 4, stat.data() + stat.size(), parent);
  return parent;
}

}  // namespace

Inherited Inherited::take() {
  open_standard_descriptors();
  Inherited inherited;
  ::sigprocmask(SIG_SETMASK, nullptr, &inherited.mask);
  inherited.ignores_sigpipe = is_ignored(SIGPIPE);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  ::getrlimit(RLIMIT_NOFILE, &inherited.files);
  rlimit most = inherited.files;
  most.rlim_cur = most.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &most);
  return inherited;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::pair<Descriptor, Descriptor> make_socket_pair(int type) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("cannot make a socket pair");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return children;
  while (const dirent* entry = ::readdir(proc.get())) {
    const char* end = entry->d_name + std::strlen(entry->d_name);
    pid_t pid = 0;
    if (std::from_chars(entry->d_name, end, pid).ptr != end) continue;
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string stat;
    std::getline(file, stat, '\0');
    if (parent_from_stat(stat) == parent) children.push_back(pid);
  }
  return children;
}

bool kill_children(const std::vector<pid_t>& spared) {
  bool any = false;
  for (const pid_t child : children_of(::getpid())) {
    if (std::find(spared.begin(), spared.end(), child) != spared.end()) continue;
    ::kill(child, SIGKILL);
    any = true;
  }
  return any;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe_end(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
  return fmt::format("killed by {}{}", signal_name(WTERMSIG(wait_status)),
                     WCOREDUMP(wait_status) ? " (core dumped)" : "");
}

int exit_status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace rondo::detail
