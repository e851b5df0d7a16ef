#include "tools/guardian_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace rondo::detail {
namespace {

constexpr int kRescanMilliseconds = 10;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// As the launcher found them.
void restore_signals(const Inherited& inherited) {
  if (!inherited.ignores_sigpipe) std::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &inherited.mask, nullptr);
}

/// As shells see it: a damaged program, or one for another machine, is no script.
bool is_text(const std::string& path) {
  std::array<char, 128> buffer{};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
  const std::string_view start(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  return !start.starts_with("\177ELF") && start.substr(0, start.find('\n')).find('\0') == std::string_view::npos;
}

/// In the rank's own process. Returns only when the program could not be run, with errno set.
void become(RankStart& rank, const Inherited& inherited, const JobCgroup& cgroup, pid_t guardian) {
  auto argv = pointers(rank.arguments);
  const auto envp = pointers(rank.environment);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guardian) ::_exit(kLauncherError);
  cgroup.enter();
  if (rank.cpus) ::sched_setaffinity(0, sizeof *rank.cpus, &*rank.cpus);
  ::dup2(rank.input.get(), 0);
  ::dup2(rank.output.get(), 1);
  ::dup2(rank.error.get(), 2);
  // dup2 of a descriptor onto itself would leave it to be closed by exec.
  if (rank.control.get() == kControlDescriptor) {
    ::fcntl(kControlDescriptor, F_SETFD, 0);
  } else {
    ::dup2(rank.control.get(), kControlDescriptor);
  }
  ::setrlimit(RLIMIT_NOFILE, &inherited.files);
  restore_signals(inherited);
  ::execve(rank.program.c_str(), argv.data(), envp.data());
  if (errno != ENOEXEC) return;
  if (is_text(rank.program)) {  // a script without #!, which every shell takes for its own
    std::string shell = "/bin/sh";
    argv[0] = rank.program.data();
    argv.insert(argv.begin(), shell.data());
    ::execve(shell.c_str(), argv.data(), envp.data());
  } else {
    errno = ENOEXEC;
  }
}

class Keeper {
 public:
  Keeper(const Inherited& inherited, JobCgroup cgroup, Descriptor channel)
      : inherited_(inherited), cgroup_(std::move(cgroup)), channel_(std::move(channel)) {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    child_ended_ = Descriptor(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    cgroup_.create();
  }

  void start(std::vector<RankStart> ranks) {
    for (RankStart& rank : ranks) {
      if (launcher_is_gone() || !start_one(rank)) break;
    }
  }

  /// Neither the launcher's end of a pipe nor its terminal may stay open here once the launcher has ended.
  void close_the_rest() {
    const auto [low, high] = std::minmax({channel_.get(), child_ended_.get()});
    const auto close_between = [](int first, int last) {
      if (first <= last) ::close_range(static_cast<unsigned>(first), static_cast<unsigned>(last), 0);
    };
    close_between(3, low - 1);
    close_between(low + 1, high - 1);
    ::close_range(static_cast<unsigned>(high) + 1, ~0U, 0);
  }

  [[noreturn]] void run() {
    while (reap()) {
      if (killing_) {
        cgroup_.kill();
        kill_children({});
      } else if (sweep_ != 0) {
        for (const pid_t child : children_of(::getpid())) {
          if (rank_of(child) < 0) ::kill(child, sweep_);
        }
      }
      wait();
    }
    cgroup_.remove();
    ::_exit(0);
  }

 private:
  bool start_one(RankStart& rank) {
    const int number = static_cast<int>(pids_.size());
    const pid_t guardian = ::getpid();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return tell_failed(Report::Kind::no_pipe, errno);
    Pipe failure{Descriptor(ends[0]), Descriptor(ends[1])};
    const pid_t pid = ::fork();
    if (pid < 0) return tell_failed(Report::Kind::no_process, errno);
    if (pid == 0) {
      // Out of the way of the control connection's fixed number.
      const int tell = ::fcntl(failure.write.get(), F_DUPFD_CLOEXEC, kControlDescriptor + 1);
      become(rank, inherited_, cgroup_, guardian);
      const int error = errno;
      [[maybe_unused]] const ssize_t told = ::write(tell, &error, sizeof error);
      ::_exit(kNotFound);
    }
    failure.write.reset();
    int error = 0;
    while (::read(failure.read.get(), &error, sizeof error) < 0 && errno == EINTR) continue;
    pids_.push_back(pid);
    rank = RankStart{};
    if (error != 0) {
      tell({Report::Kind::refused, number, pid, error});
      ::waitpid(pid, nullptr, 0);
      pids_.back() = -1;
      return false;
    }
    tell({Report::Kind::started, number, pid, 0});
    return true;
  }

  /// Of the rank whose turn it is.
  bool tell_failed(Report::Kind kind, int error) const {
    tell({kind, static_cast<int>(pids_.size()), -1, error});
    return false;
  }

  bool launcher_is_gone() const {
    pollfd channel{channel_.get(), 0, 0};
    return ::poll(&channel, 1, 0) == 1;
  }

  int rank_of(pid_t pid) const {
    const auto found = std::find(pids_.begin(), pids_.end(), pid);
    return found == pids_.end() ? -1 : static_cast<int>(found - pids_.begin());
  }

  /// False when no child is left. Of ranks that ended since the last look, those that a signal killed are told first:
  /// the kernel does not say who was first, and a crash causes its peers' orderly failures, not the other way round.
  bool reap() {
    signalfd_siginfo drained;
    while (::read(child_ended_.get(), &drained, sizeof drained) > 0) continue;
    std::vector<Report> ended;
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      const int rank = rank_of(pid);
      if (rank < 0) continue;
      pids_[static_cast<std::size_t>(rank)] = -1;
      ended.push_back({Report::Kind::ended, rank, pid, status});
    }
    std::stable_partition(ended.begin(), ended.end(), [](const Report& report) { return WIFSIGNALED(report.value); });
    for (const Report& report : ended) tell(report);
    return pid == 0;
  }

  void wait() {
    pollfd watched[] = {{channel_closed_ ? -1 : channel_.get(), POLLIN, 0}, {child_ended_.get(), POLLIN, 0}};
    // A child may become ours without any signal.
    ::poll(watched, 2, killing_ ? kRescanMilliseconds : -1);
    if (watched[0].revents != 0) obey();
  }

  void obey() {
    Order order{};
    const ssize_t got = ::recv(channel_.get(), &order, sizeof order, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got != static_cast<ssize_t>(sizeof order)) {
      channel_closed_ = killing_ = true;
    } else if (order.kind == Order::Kind::kill) {
      killing_ = true;
    } else if (order.kind == Order::Kind::sweep) {
      sweep_ = order.signal;
    } else {
      for (const pid_t pid : pids_) {
        if (pid > 0) ::kill(-pid, order.signal);
      }
    }
  }

  void tell(const Report& report) const {
    [[maybe_unused]] const ssize_t sent = ::send(channel_.get(), &report, sizeof report, MSG_NOSIGNAL);
  }

  const Inherited& inherited_;
  JobCgroup cgroup_;
  Descriptor channel_;
  Descriptor child_ended_;
  std::vector<pid_t> pids_;  ///< by rank; -1 once reaped: from then on the number may be a stranger's
  int sweep_ = 0;
  bool killing_ = false;
  bool channel_closed_ = false;
};

}  // namespace

void guard(std::vector<RankStart> ranks, const Inherited& inherited, JobCgroup cgroup, Descriptor channel) try {
  ::setsid();                              // out of reach of the terminal's Ctrl-C, which is the launcher's to forward
  ::prctl(PR_SET_NAME, "rondo-guardian");  // and of `killall rondo-run`
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Descriptor nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {0, 1, 2}) ::dup2(nowhere.get(), fd);
  Keeper keeper(inherited, std::move(cgroup), std::move(channel));
  keeper.start(std::move(ranks));
  keeper.close_the_rest();
  keeper.run();
} catch (...) {
  ::_exit(kLauncherError);
}

}  // namespace rondo::detail
