#include "bench/compare/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "bench/checked.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGraceSeconds = 2;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// True when the descriptor can be read before the deadline.
bool readable_before(int descriptor, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{descriptor, POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

/// Of this process.
std::vector<pid_t> children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  std::vector<pid_t> found;
  for (pid_t child = 0; file >> child;) found.push_back(child);
  return found;
}

/// What the new process does. Never returns.
[[noreturn]] void become(const Command& command, int output, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // so that a launcher clears away what it made
  if (getppid() != parent) _exit(127);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const auto& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const std::string text = fmt::format("cannot run {}: {}\n", command.words[0], std::generic_category().message(errno));
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  _exit(127);
}

}  // namespace

std::string Command::text() const {
  std::string text;
  for (const auto& [name, value] : environment) text += fmt::format("{}={} ", name, value);
  for (const auto& word : words) text += word + " ";
  if (!text.empty()) text.pop_back();
  return text;
}

Child::Child(const Command& command) {
  for (const pid_t child : children()) others_.insert(child);
  checked(prctl(PR_SET_CHILD_SUBREAPER, 1), "PR_SET_CHILD_SUBREAPER");
  std::array<int, 2> ends{};
  checked(pipe2(ends.data(), O_CLOEXEC), "pipe");
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(command, ends[1], parent);
  const int error = errno;
  close(ends[1]);
  output_ = ends[0];
  if (pid_ < 0) {
    close(output_);
    throw std::system_error(error, std::generic_category(), "fork");
  }
  setpgid(pid_, pid_);  // whichever of the two is first
}

Child::~Child() {
  finish(0);
  close(output_);
}

Child::Read Child::next_line(std::string& line, double seconds) {
  const auto deadline = after(seconds);
  while (true) {
    const std::size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return Read::line;
    }
    if (!readable_before(output_, deadline)) return Read::late;
    std::array<char, 4096> part{};
    const ssize_t got = read(output_, part.data(), part.size());
    if (got == 0 && pending_.empty()) return Read::end;
    if (got == 0) pending_ += '\n';
    if (got > 0) pending_.append(part.data(), static_cast<std::size_t>(got));
  }
}

bool Child::exited_within(double seconds) {
  if (reaped_) return true;
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (handle >= 0) {
    const bool exited = readable_before(handle, after(seconds));
    close(handle);
    if (!exited) return false;
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  reaped_ = true;
  return true;
}

int Child::finish(double seconds) {
  if (!exited_within(seconds)) {
    kill(-pid_, SIGTERM);
    if (!exited_within(kGraceSeconds)) {
      kill(-pid_, SIGKILL);
      exited_within(kGraceSeconds);
    }
  }
  kill(-pid_, SIGKILL);
  end_descendants();
  return status_;
}

void Child::end_descendants() {
  // Those whose parents end come to this process in turn.
  while (true) {
    std::vector<pid_t> own = children();
    std::erase_if(own, [this](pid_t child) { return others_.contains(child); });
    if (own.empty()) return;
    for (const pid_t child : own) kill(child, SIGKILL);
    for (const pid_t child : own) {
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
    }
  }
}

Outcome run_program(const Command& command, double seconds) {
  Child child(command);
  Outcome outcome;
  std::string line;
  while (child.next_line(line, seconds) == Child::Read::line) outcome.output += line + "\n";
  outcome.status = child.finish(seconds);
  return outcome;
}

}  // namespace rondo::bench
