#include "transport/process_memory.hpp"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace rondo::detail {
namespace {

// Yama, where it is set to 1 (Ubuntu), lets a process be read by its ancestors alone, and by the descendants of one
// process that it names. Not of the first: those are all there are.
void let_siblings_read() {
  if (const pid_t parent = ::getppid(); parent > 1) ::prctl(PR_SET_PTRACER, parent);
}

template <typename Copy>
bool copy_all(Copy copy, pid_t process, std::uint64_t address, std::byte* own, std::size_t bytes) {
  while (bytes > 0) {
    const iovec here{own, bytes};
    const iovec there{reinterpret_cast<void*>(address), bytes};
    const ssize_t copied = copy(process, &here, 1, &there, 1, 0);
    if (copied <= 0) return false;
    address += static_cast<std::uint64_t>(copied);
    own += copied;
    bytes -= static_cast<std::size_t>(copied);
  }
  return true;
}

}  // namespace

ProcessWord ProcessWord::own() {
  static const std::uint64_t kWord = [] {
    let_siblings_read();
    std::uint64_t bits = 0;
    return ::getrandom(&bits, sizeof bits, 0) == sizeof bits ? bits : 0;
  }();
  return {reinterpret_cast<std::uint64_t>(&kWord), kWord};
}

bool ProcessWord::found_in(pid_t process) const {
  std::uint64_t found = ~value;
  if (!read_process(process, address, std::as_writable_bytes(std::span(&found, 1)))) return false;
  errno = ESRCH;
  return value != 0 && found == value;
}

bool read_process(pid_t process, std::uint64_t address, std::span<std::byte> into) {
  return copy_all(::process_vm_readv, process, address, into.data(), into.size());
}

bool write_process(pid_t process, std::uint64_t address, std::span<const std::byte> from) {
  return copy_all(::process_vm_writev, process, address, const_cast<std::byte*>(from.data()), from.size());
}

}  // namespace rondo::detail
