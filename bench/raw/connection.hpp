#pragma once

#include <utility>

#include "transport/descriptor.hpp"

namespace rondo::bench {

/// Both ends of a TCP connection over loopback, set as rondo sets its own. Throws std::system_error.
std::pair<detail::Descriptor, detail::Descriptor> connected();

/// An option of TCP's that is on or off.
void set_on(int socket, int option, const char* name, bool on);

}  // namespace rondo::bench
