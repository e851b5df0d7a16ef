// What a rank may do to its launcher. rank_actor ACT [ARGUMENT]; an act named "if RANK ACT ..." is for that rank, the
// others then pause.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

const char* rank_text() {
  const char* rank = std::getenv("RONDO_RANK");
  return rank != nullptr ? rank : "?";
}

/// In one write, so that a test sees all of a line or nothing.
void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) std::_Exit(99);
}

void say_pid(const std::string& what) { say(what + rank_text() + " " + std::to_string(::getpid())); }

[[noreturn]] void pause_for_ever() {
  while (true) ::pause();
}

/// Lines in writes that end anywhere but where a line ends.
int write_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += std::string("rank ") + rank_text() + " line " + std::to_string(i) +
            std::string(static_cast<std::size_t>(i % 60), '.') + "end\n";
  }
  std::size_t at = 0;
  for (std::size_t piece = 1; at < text.size(); piece = piece * 7 % 9973) {
    const ssize_t written = ::write(1, text.data() + at, std::min(piece, text.size() - at));
    if (written < 0) return 1;
    at += static_cast<std::size_t>(written);
  }
  return 0;
}

/// Writes until nobody takes more, says how much that was, then writes on until it is `megabytes`.
int fill(long megabytes) {
  constexpr int kBlockedMilliseconds = 1000;
  const std::string line = std::string(1023, 'x') + "\n";
  const long total = megabytes << 20;
  ::fcntl(1, F_SETFL, O_NONBLOCK);
  bool said = false;
  for (long written = 0; written < total;) {
    pollfd room{1, POLLOUT, 0};
    if (::poll(&room, 1, said ? -1 : kBlockedMilliseconds) == 0) {
      std::fprintf(stderr, "blocked after %ld\n", written);
      said = true;
    }
    const auto left = static_cast<std::size_t>(written) % line.size();
    const ssize_t got = ::write(1, line.data() + left, line.size() - left);
    if (got > 0) written += got;
  }
  return 0;
}

/// A process of its own session whose parent is gone, deaf to SIGTERM.
void make_daemon() {
  int ready[2];
  if (::pipe(ready) != 0) std::_Exit(99);
  if (const pid_t child = ::fork(); child == 0) {
    ::setsid();
    if (::fork() != 0) std::_Exit(0);
    std::signal(SIGTERM, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    say_pid("daemon ");
    ::close(ready[0]);
    ::close(ready[1]);
    pause_for_ever();
  } else {
    ::waitpid(child, nullptr, 0);
  }
  ::close(ready[1]);
  char end;
  while (::read(ready[0], &end, 1) > 0) continue;
}

/// Says each signal that comes; ends well on SIGUSR2, and on SIGTERM when `polite`.
int hear_signals(bool polite) {
  sigset_t heard;
  ::sigemptyset(&heard);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::sigaddset(&heard, signal);
  ::sigprocmask(SIG_BLOCK, &heard, nullptr);
  say_pid("ready ");
  int signal = 0;
  while (::sigwait(&heard, &signal) == 0) {
    say(std::string("got ") + rank_text() + " SIG" + sigabbrev_np(signal));
    if (signal == SIGUSR2 || (polite && signal == SIGTERM)) return 0;
  }
  return 1;
}

/// Which descriptors it was started with, in order.
int list_descriptors() {
  std::string list = "descriptors";
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) list.append(" ").append(std::to_string(fd));
  }
  say(list);
  return 0;
}

int act(const std::vector<std::string>& words) {
  const std::string name = words.empty() ? "pause" : words[0];
  const int number = words.size() > 1 ? std::atoi(words[1].c_str()) : 0;
  if (name == "if") {
    if (words[1] == rank_text()) return act({words.begin() + 2, words.end()});
    return act({"pause"});
  }
  if (name == "lines") return write_lines(number);
  if (name == "fill") return fill(number);
  if (name == "signals") return hear_signals(false);
  if (name == "polite") return hear_signals(true);
  if (name == "descriptors") return list_descriptors();
  if (name == "exit") {
    std::fprintf(stderr, "about to exit\nwith %d\n", number);
    return number;
  }
  if (name == "crash") {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (name == "daemon") {
    make_daemon();
    say_pid("ready ");
    if (words.size() > 1) return number;
  }
  if (name == "pause") say_pid("ready ");
  pause_for_ever();
}

}  // namespace

int main(int argc, char** argv) { return act({argv + 1, argv + argc}); }
