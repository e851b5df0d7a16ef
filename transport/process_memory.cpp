#include "transport/process_memory.hpp"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "transport/copy_short.hpp"
#include "transport/system_errors.hpp"

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

using Nanoseconds = std::chrono::nanoseconds;

template <typename Action>
Nanoseconds time_of(Action action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::steady_clock::now() - begin;
}

[[gnu::noinline]] void copy(std::span<const std::byte> from, std::span<std::byte> to) { copy_short(from, to.data()); }

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

std::string why_not_read(const std::function<bool(std::span<std::byte>)>& read) {
  // Where reading took 2.7 times as long as two copies in a core's caches, messages of 64 KiB that the receiver read
  // alone took 0.74 of what they did through the ring. By that it is no faster from 4 on.
  constexpr int kNoFaster = 4;
  constexpr int kTrials = 8;
  std::vector<std::byte> mine(kTriedBytes), between(kTriedBytes);
  Nanoseconds reading = Nanoseconds::max(), copying = Nanoseconds::max();
  for (int trial = 0; trial < kTrials; ++trial) {
    bool done = false;
    reading = std::min(reading, time_of([&] { done = read(between); }));
    if (!done) return "process_vm_readv: " + system_text(errno);
    copying = std::min(copying, time_of([&] {
                         copy(between, mine);
                         copy(mine, between);
                       }));
    if (reading <= kNoFaster * copying) return "";
  }
  return fmt::format("process_vm_readv takes {} us for {} bytes, two copies {}", reading.count() / 1000, kTriedBytes,
                     copying.count() / 1000);
}

}  // namespace rondo::detail
