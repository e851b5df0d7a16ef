#pragma once

#include <sys/types.h>

namespace rondo::bench {

/// As fork(2), but for a child that is killed when the thread that calls this ends. Throws std::system_error.
pid_t fork_child();

}  // namespace rondo::bench
