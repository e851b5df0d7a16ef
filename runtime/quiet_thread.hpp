#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace rondo::detail {

/// A thread that takes none of the process's signals: who handles them, or waits for them, expects the program's own.
/// Throws std::system_error.
template <typename Body>
std::thread quiet_thread(Body body) {
  struct AllBlocked {
    AllBlocked() noexcept {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~AllBlocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    AllBlocked(const AllBlocked&) = delete;
    AllBlocked& operator=(const AllBlocked&) = delete;
    sigset_t before;
  };
  const AllBlocked inherited;
  return std::thread(std::move(body));
}

}  // namespace rondo::detail
