#include "tools/guardian.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "tools/guardian_process.hpp"

namespace rondo::detail {

Guardian::Guardian(std::vector<RankStart> ranks, const Inherited& inherited, const std::string& cgroup_name)
    : cgroup_(cgroup_name), not_ours_(children_of(::getpid())) {
  auto [ours, theirs] = make_socket_pair(SOCK_SEQPACKET);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // The guardian has no use for signals, not even for those that the launcher does not hear.
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  pid_ = ::fork();
  if (pid_ == 0) {
    ours.reset();
    guard(std::move(ranks), inherited, std::move(cgroup_), std::move(theirs));
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw_errno("cannot fork");
  channel_ = std::move(ours);
}

Guardian::~Guardian() {
  // Its end is the order to kill; not merely closed, for somebody may hold a copy.
  ::shutdown(channel_.get(), SHUT_RDWR);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

Guardian::Read Guardian::read(Report& report) {
  ssize_t got = 0;
  do {
    got = ::recv(channel_.get(), &report, sizeof report, MSG_DONTWAIT);
  } while (got < 0 && errno == ECONNRESET);  // it ended before it read an order: what it told is still there
  if (got == static_cast<ssize_t>(sizeof report)) return Read::report;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Read::nothing;
  return Read::ended;
}

void Guardian::order(const Order& order) {
  if (pid_ > 0) ::kill(pid_, SIGCONT);  // it may have been stopped
  // A guardian that is gone is noticed by read().
  [[maybe_unused]] const ssize_t sent = ::send(channel_.get(), &order, sizeof order, MSG_NOSIGNAL);
}

void Guardian::signal(int signal) { order({Order::Kind::signal, signal}); }
void Guardian::sweep(int signal) { order({Order::Kind::sweep, signal}); }
void Guardian::kill() { order({Order::Kind::kill, SIGKILL}); }

int Guardian::conclude() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  if (status == 0) return status;

  cgroup_.kill();
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (kill_children(not_ours_) && std::chrono::steady_clock::now() < give_up) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  cgroup_.remove();
  return status;
}

}  // namespace rondo::detail
