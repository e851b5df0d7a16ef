#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace rondo::detail {

/// A random word at an address of one process: whoever finds it there may read that process, and has the right one
/// (process numbers mean different processes in different containers).
struct ProcessWord {
  std::uint64_t address = 0;
  std::uint64_t value = 0;

  /// Of this process. From the first time on, processes of the same parent may read this one where the system wants
  /// that to be said.
  static ProcessWord own();
  /// False: `errno` tells why; ESRCH: what has that number is another process.
  bool found_in(pid_t process) const;
};

/// Copies from the memory of another process. False: the system does not allow it, or there is no such memory.
bool read_process(pid_t process, std::uint64_t address, std::span<std::byte> into);
/// The same to it.
bool write_process(pid_t process, std::uint64_t address, std::span<const std::byte> from);

/// What `read` of another process is tried with.
inline constexpr std::size_t kTriedBytes = std::size_t{64} << 10;
/// Why `read` is no way for long messages: it fails, or takes so much longer than copying twice, which is what they
/// cost in memory that both processes map, that it is no faster, as in sandboxes whose kernel is a program. Empty: it
/// is one. It is tried again while it looks slow: somebody else may have had the core.
std::string why_not_read(const std::function<bool(std::span<std::byte>)>& read);

}  // namespace rondo::detail
