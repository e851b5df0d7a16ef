#include "transport/process_memory.hpp"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

namespace rondo::detail {
namespace {

// Yama, where it is set to 1 (Ubuntu), lets a process be read by its ancestors alone, and by the descendants of one
// process that it names. Not of the first: those are all there are.
void let_siblings_read() {
  if (const pid_t parent = ::getppid(); parent > 1) ::prctl(PR_SET_PTRACER, parent);
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
  return value != 0 && read_process(process, address, std::as_writable_bytes(std::span(&found, 1))) && found == value;
}

bool read_process(pid_t process, std::uint64_t address, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec here{into.data(), into.size()};
    const iovec there{reinterpret_cast<void*>(address), into.size()};
    const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) return false;
    address += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace rondo::detail
