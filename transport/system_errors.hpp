#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace rondo::detail {

/// What the system calls an errno.
inline std::string system_text(int error) { return std::generic_category().message(error); }

/// Whether a call on a descriptor that does not block is to be made again, at once or when there is something to do.
inline bool try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace rondo::detail
