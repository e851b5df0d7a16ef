#pragma once

#include <cerrno>
#include <system_error>

namespace rondo::bench {

/// The result of a system call; throws std::system_error, which says that it was `what`, where it is below 0.
inline int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

}  // namespace rondo::bench
