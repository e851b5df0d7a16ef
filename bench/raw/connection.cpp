#include "bench/raw/connection.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "bench/checked.hpp"
#include "transport/socket_link.hpp"

namespace rondo::bench {
namespace {

using detail::Descriptor;
using Own = detail::SocketLink;  // what rondo does is done here, too

void set(int socket, int level, int option, const char* name, const void* value, std::size_t bytes) {
  checked(setsockopt(socket, level, option, value, static_cast<socklen_t>(bytes)), name);
}

void configure(int socket) {
  set_on(socket, TCP_NODELAY, "TCP_NODELAY", true);
  set(socket, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF", &Own::kLocalBufferBytes, sizeof Own::kLocalBufferBytes);
  set(socket, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF", &Own::kLocalBufferBytes, sizeof Own::kLocalBufferBytes);
  set_on(socket, TCP_QUICKACK, "TCP_QUICKACK", false);
  set(socket, IPPROTO_TCP, TCP_CONGESTION, "TCP_CONGESTION", Own::kLocalCongestionControl.data(),
      Own::kLocalCongestionControl.size());
}

Descriptor make_socket() { return Descriptor(checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")); }

}  // namespace

void set_on(int socket, int option, const char* name, bool on) {
  const int value = on ? 1 : 0;
  set(socket, IPPROTO_TCP, option, name, &value, sizeof value);
}

std::pair<Descriptor, Descriptor> connected() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  const Descriptor listener = make_socket();
  checked(bind(listener.get(), generic, length), "bind");
  checked(listen(listener.get(), 1), "listen");
  checked(getsockname(listener.get(), generic, &length), "getsockname");
  Descriptor here = make_socket();
  checked(connect(here.get(), generic, length), "connect");
  Descriptor there(checked(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC), "accept"));
  for (const Descriptor* end : {&here, &there}) configure(end->get());
  return {std::move(here), std::move(there)};
}

}  // namespace rondo::bench
