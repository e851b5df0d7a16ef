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
    if (checked(fork(), "fork") != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
  }
  return 0;
}

bool join_ranks() {
  bool good = true;
  for (int status = 0; wait(&status) > 0 || errno == EINTR;) good = good && status == 0;
  return good;
}

}  // namespace rondo::bench
