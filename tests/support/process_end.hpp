#pragma once

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rondo::testing {

/// Without a word to rondo, which might hear of it. It may be over already, and reaped.
inline void wait_for_end_of(pid_t process) {
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) return;
  pollfd ended{descriptor, POLLIN, 0};
  ::poll(&ended, 1, -1);
  ::close(descriptor);
}

}  // namespace rondo::testing
