#include "tests/process/launched.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace rondo::test {
namespace {

using std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

std::pair<detail::Descriptor, detail::Descriptor> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  return {detail::Descriptor(ends[0]), detail::Descriptor(ends[1])};
}

int open_process(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

int living = 0;  // launchers

/// The launcher is reaped. What a killed one left has become our child, too: it has to have ended, or is found by the
/// test for just that.
void reap(pid_t launcher, int* status) {
  ::waitpid(launcher, status, 0);
  if (--living > 0) return;
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
}

int milliseconds_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

}  // namespace

Watched::Watched(pid_t pid) : process_(open_process(pid)) {
  if (!process_) fail("the process to watch is not there");
}

bool Watched::gone_within(std::chrono::milliseconds time) const {
  pollfd ended{process_.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(time.count())) == 1;
}

Launched::Launched(std::vector<std::string> arguments, std::vector<std::string> launcher) {
  launcher.emplace_back(RONDO_RUN);
  launcher.insert(launcher.end(), arguments.begin(), arguments.end());
  std::vector<char*> words;
  for (std::string& word : launcher) words.push_back(word.data());
  words.push_back(nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // for reap()
  auto input = make_pipe(), output = make_pipe(), error = make_pipe();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(input.first.get(), 0);
    ::dup2(output.second.get(), 1);
    ::dup2(error.second.get(), 2);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ++living;
  input_ = std::move(input.second);
  output_ = std::move(output.first);
  error_ = std::move(error.first);
}

Launched::~Launched() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  reap(pid_, nullptr);
}

void Launched::signal(int signal) const { ::kill(pid_, signal); }

void Launched::type(std::string_view text) const {
  if (::write(input_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail("write");
}

bool Launched::read_some(steady_clock::time_point deadline) {
  std::array<pollfd, 2> watched{{{output_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}}};
  if (!output_ && !error_) return false;
  if (::poll(watched.data(), watched.size(), milliseconds_until(deadline)) == 0) {
    throw std::runtime_error("rondo-run hangs; output so far:\n" + out_ + "\nerror so far:\n" + err_);
  }
  static std::array<char, 1 << 16> buffer;
  const auto read_from = [](detail::Descriptor& pipe, const pollfd& ready, std::string& text) {
    if (ready.revents == 0) return;
    const ssize_t got = ::read(pipe.get(), buffer.data(), buffer.size());
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    } else {
      pipe.reset();
    }
  };
  read_from(output_, watched[0], out_);
  read_from(error_, watched[1], err_);
  return true;
}

const std::string& Launched::wait_for(const detail::Descriptor& pipe, std::string& text, std::string_view wanted) {
  const auto deadline = steady_clock::now() + kDeadline;
  while (text.find(wanted) == std::string::npos) {
    pollfd ready{pipe.get(), POLLIN, 0};
    if (!pipe) throw std::runtime_error("'" + std::string(wanted) + "' never came:\n" + out_ + "\n" + err_);
    if (::poll(&ready, 1, milliseconds_until(deadline)) == 0) throw std::runtime_error("waited too long for output");
    static std::array<char, 1 << 12> buffer;
    const ssize_t got = ::read(pipe.get(), buffer.data(), buffer.size());
    if (got <= 0) throw std::runtime_error("'" + std::string(wanted) + "' never came:\n" + out_ + "\n" + err_);
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

pid_t Launched::number_after(std::string_view text) {
  wait_for_output(text);
  const auto at = out_.find(text) + text.size();
  while (out_.find('\n', at) == std::string::npos) {
    if (!read_some(steady_clock::now() + kDeadline)) break;
  }
  return static_cast<pid_t>(std::stoi(out_.substr(at)));
}

bool Launched::ends_by_itself() const {
  const detail::Descriptor process(open_process(pid_));
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(kDeadline).count())) == 1;
}

Launched::Ended Launched::wait() {
  const auto deadline = steady_clock::now() + kDeadline;
  while (read_some(deadline)) continue;
  const detail::Descriptor process(open_process(pid_));
  pollfd ended{process.get(), POLLIN, 0};
  if (::poll(&ended, 1, milliseconds_until(deadline)) == 0) throw std::runtime_error("rondo-run does not end");
  int status = 0;
  reap(std::exchange(pid_, -1), &status);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), std::move(out_), std::move(err_)};
}

Launched::Ended launch(std::vector<std::string> arguments) {
  Launched launched(std::move(arguments));
  launched.end_input();
  return launched.wait();
}

std::vector<std::string> actors(int ranks, std::initializer_list<std::string> options,
                                std::initializer_list<std::string> act) {
  std::vector<std::string> words{"-n", std::to_string(ranks)};
  words.insert(words.end(), options);
  words.insert(words.end(), {"--", RANK_ACTOR});
  words.insert(words.end(), act);
  return words;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "rondo-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail("mkdtemp");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

double seconds_until_kill(const std::string& summary) {
  const std::string_view before = "SIGKILL, ", after = " s after the first signal";
  const auto start = summary.find(before), end = summary.find(after);
  if (start == std::string::npos || end == std::string::npos) throw std::runtime_error("nobody was killed: " + summary);
  return std::stod(summary.substr(start + before.size(), end - start - before.size()));
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace rondo::test
