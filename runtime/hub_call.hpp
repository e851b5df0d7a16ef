#pragma once

#include <sys/socket.h>

#include <string>

#include "runtime/clock.hpp"
#include "transport/descriptor.hpp"
#include "transport/handshake.hpp"

namespace rondo::detail {

/// How one call to a hub went.
struct HubCall {
  Verdict verdict = Verdict::pending;  ///< pending: nobody there, or no answer
  bool connected = false;              ///< somebody listens there
  Descriptor socket;                   ///< connected and non-blocking, when accepted
  std::string cause;                   ///< otherwise, in one line
};

/// Connects and shakes hands, once. Both have to be done at `until`.
HubCall call_hub(const sockaddr* address, socklen_t length, const HandshakeTerms& terms, const JobKey& key, Time until);

}  // namespace rondo::detail
