#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "transport/shm_link.hpp"

namespace rondo::testing {

/// The two ends of a connection through shared memory, both in this process.
inline std::pair<std::unique_ptr<detail::Link>, std::unique_ptr<detail::Link>> shm_pair(
    std::size_t lines = detail::ShmLink::kLines, pid_t readable_pid = ::getpid()) {
  using namespace detail;
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) throw std::runtime_error("socketpair");
  SharedMemory made = SharedMemory::create(ShmLink::memory_bytes(lines));
  SharedMemory mapped = SharedMemory::map(Descriptor(::dup(made.descriptor())), ShmLink::memory_bytes(lines));
  return {std::make_unique<ShmLink>(Descriptor(fds[0]), std::move(made), true, readable_pid, lines),
          std::make_unique<ShmLink>(Descriptor(fds[1]), std::move(mapped), false, readable_pid, lines)};
}

}  // namespace rondo::testing
