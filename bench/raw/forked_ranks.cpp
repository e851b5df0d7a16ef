#include "bench/raw/forked_ranks.hpp"

#include <sys/wait.h>

#include <cerrno>

#include "bench/fork_child.hpp"

namespace rondo::bench {

int fork_ranks(int ranks) {
  for (int child = 1; child < ranks; ++child) {
    if (fork_child() == 0) return child;
  }
  return 0;
}

bool join_ranks() {
  bool good = true;
  for (int status = 0; wait(&status) > 0 || errno == EINTR;) good = good && status == 0;
  return good;
}

}  // namespace rondo::bench
