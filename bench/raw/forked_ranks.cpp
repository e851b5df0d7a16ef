#include "bench/raw/forked_ranks.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "bench/checked.hpp"

namespace rondo::bench {

int fork_ranks(int ranks) {
  for (int child = 1; child < ranks; ++child) {
    if (fork_child() == 0) return child;
  }
  return 0;
}

pid_t fork_child() {
  const pid_t parent = getpid();
  const pid_t child = checked(fork(), "fork");
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it has ended already
  return 0;
}

bool join_ranks() {
  bool good = true;
  for (int status = 0; wait(&status) > 0 || errno == EINTR;) good = good && status == 0;
  return good;
}

}  // namespace rondo::bench
