#include "bench/fork_child.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "bench/checked.hpp"

namespace rondo::bench {

pid_t fork_child() {
  const pid_t parent = getpid();
  const pid_t child = checked(fork(), "fork");
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it has ended already
  return 0;
}

}  // namespace rondo::bench
