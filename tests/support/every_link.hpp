#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/frames.hpp"
#include "tests/support/shm_pair.hpp"
#include "transport/socket_link.hpp"

namespace rondo::testing {

using Ends = std::pair<std::unique_ptr<detail::Link>, std::unique_ptr<detail::Link>>;

inline Ends unix_pair(std::size_t spill = detail::SocketLink::kSpillBytes) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) throw std::runtime_error("socketpair");
  return {std::make_unique<detail::SocketLink>(detail::Descriptor(fds[0]), spill),
          std::make_unique<detail::SocketLink>(detail::Descriptor(fds[1]), spill)};
}

template <typename Address>
Ends tcp_pair(Address address, int family, int patience = 1) {
  detail::Descriptor listener(::socket(family, SOCK_STREAM, 0));
  socklen_t length = sizeof address;
  auto* const target = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), target, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), target, &length) != 0) {
    throw std::runtime_error("no listener");
  }
  detail::Descriptor caller(::socket(family, SOCK_STREAM, 0));
  if (::connect(caller.get(), target, length) != 0) throw std::runtime_error("no connection");
  detail::Descriptor called(::accept(listener.get(), nullptr, nullptr));
  const auto link = [&](detail::Descriptor& end) {
    return std::make_unique<detail::SocketLink>(std::move(end), detail::SocketLink::kSpillBytes, patience);
  };
  return {link(caller), link(called)};
}

inline Ends tcp4_pair(int patience = 1) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return tcp_pair(address, AF_INET, patience);
}

inline Ends tcp6_pair() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return tcp_pair(address, AF_INET6);
}

inline bool has_ipv6() {
  const detail::Descriptor probe(::socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return probe && ::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

inline Ends make(const std::string& kind) {
  if (kind == "tcp over IPv6" && has_ipv6()) return tcp6_pair();
  if (kind == "tcp over IPv4" || kind == "tcp over IPv6") return tcp4_pair();
  if (kind == "unix") return unix_pair();
  if (kind == "unix, header-sized spill") return unix_pair(sizeof(detail::FrameHeader));
  if (kind == "shm") return shm_pair();
  return shm_pair(256);
}

/// Polls both ends until `done`; a test that would hang fails instead.
inline void run(Ends& ends, Recorder& left, Recorder& right, const std::function<bool()>& done) {
  for (int polls = 0; !done(); ++polls) {
    if (polls == 2'000'000) throw std::runtime_error("nothing moves any more");
    for (auto* const end : {ends.first.get(), ends.second.get()}) {
      if (!end) continue;
      if (polls % 64 == 0) end->check(end == ends.first.get() ? left : right);
      end->poll(end == ends.first.get() ? left : right);
    }
  }
}

}  // namespace rondo::testing

/// In a test: both ends of each kind of link in turn, and what they bring.
#define EVERY_LINK                                                                                               \
  const std::string kind = GENERATE("tcp over IPv4", "tcp over IPv6", "unix", "unix, header-sized spill", "shm", \
                                    "shm, a ring of 256 lines");                                                 \
  CAPTURE(kind);                                                                                                 \
  Ends ends = make(kind);                                                                                        \
  Recorder left, right
