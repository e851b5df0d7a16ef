#include "tools/signals.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tools/process.hpp"

namespace rondo::detail {
namespace {

constexpr std::array kHeard = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP, SIGCONT};
constexpr std::array kToStop = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

Signals::Signals() {
  sigset_t heard;
  ::sigemptyset(&heard);
  ::sigemptyset(&to_stop_);
  for (const int signal : kHeard) {
    if (is_ignored(signal)) continue;
    ::sigaddset(&heard, signal);
    if (tells_to_stop(signal)) ::sigaddset(&to_stop_, signal);
  }
  ::sigprocmask(SIG_BLOCK, &heard, nullptr);
  waiting_ = Descriptor(::signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!waiting_) throw_errno("cannot wait for signals");
}

int Signals::next() const {
  signalfd_siginfo signal{};
  while (true) {
    const ssize_t got = ::read(waiting_.get(), &signal, sizeof signal);
    if (got == static_cast<ssize_t>(sizeof signal)) return static_cast<int>(signal.ssi_signo);
    if (got >= 0 || errno != EINTR) return 0;
  }
}

int Signals::next_to_stop() const {
  constexpr timespec kNoTime{};
  while (true) {
    const int signal = ::sigtimedwait(&to_stop_, nullptr, &kNoTime);
    if (signal > 0) return signal;
    if (errno != EINTR) return 0;
  }
}

Signals::Unheard::Unheard(const Signals& signals) : signals_(signals) {
  ::sigprocmask(SIG_UNBLOCK, &signals_.to_stop_, nullptr);
}

Signals::Unheard::~Unheard() { ::sigprocmask(SIG_BLOCK, &signals_.to_stop_, nullptr); }

bool Signals::tells_to_stop(int signal) { return std::find(kToStop.begin(), kToStop.end(), signal) != kToStop.end(); }

}  // namespace rondo::detail
