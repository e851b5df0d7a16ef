#include "runtime/endpoint.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <system_error>

#include <asio/io_context.hpp>
#include <fmt/format.h>

#include <rondo/error.hpp>

#include "transport/printable.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

std::string prefix(std::string_view who) { return who.empty() ? "" : fmt::format("{}: ", who); }

Descriptor open_listener(int family, const sockaddr* address, socklen_t length, const std::string& name) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw Error(Errc::system, fmt::format("cannot make a socket for {}: {}", name, system_text(errno)));
  const int on = 1;
  if (family != AF_UNIX) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address, length) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) throw Error(Errc::address_in_use, fmt::format("{} is in use by another process", name));
    if (error == EADDRNOTAVAIL) {
      throw Error(Errc::bad_configuration, fmt::format("cannot listen on {}: not an address of this host", name));
    }
    throw Error(Errc::system, fmt::format("cannot listen on {}: {}", name, system_text(error)));
  }
  return socket;
}

void set(int socket, int level, int option, int value) noexcept {
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

std::string to_string(const asio::ip::tcp::endpoint& endpoint) {
  const auto& address = endpoint.address();
  const std::string text = address.to_string();
  return address.is_v6() ? fmt::format("[{}]:{}", text, endpoint.port()) : fmt::format("{}:{}", text, endpoint.port());
}

std::uint16_t parse_port(std::string_view text, std::string_view who) {
  std::uint16_t port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc{} || end != text.data() + text.size() || port == 0) {
    throw Error(Errc::bad_configuration,
                fmt::format("{}got \"{}\", wanted a port from 1 to 65535", prefix(who), printable(text, 64)));
  }
  return port;
}

HostPort split_host_port(std::string_view text, std::string_view who) {
  const auto colon = text.rfind(':');
  std::string_view host = colon == std::string_view::npos ? std::string_view{} : text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || (!bracketed && host.find(':') != std::string_view::npos)) {
    throw Error(Errc::bad_configuration,
                fmt::format("{}got \"{}\", wanted host:port or [address]:port", prefix(who), printable(text, 64)));
  }
  return {std::string(host), parse_port(text.substr(colon + 1), who)};
}

std::vector<asio::ip::tcp::endpoint> resolve(const std::string& host, std::uint16_t port) {
  // By its own rule "localhost" is loopback everywhere: no reason to ask anybody.
  asio::error_code failed;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, failed);
  if (!failed) return {{address, port}};

  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  std::vector<asio::ip::tcp::endpoint> endpoints;
  for (const auto& result : resolver.resolve(host, std::to_string(port), failed))
    endpoints.push_back(result.endpoint());
  if (failed || endpoints.empty()) {
    throw Error(Errc::bootstrap_failed,
                fmt::format("cannot resolve host \"{}\": {}", printable(host, 64), failed.message()));
  }
  return endpoints;
}

asio::ip::address interface_address(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    throw Error(Errc::system, fmt::format("cannot list the network interfaces: {}", system_text(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);

  std::vector<asio::ip::address> matches;
  std::string seen;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    asio::ip::tcp::endpoint endpoint;
    std::memcpy(endpoint.data(), entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const auto address = endpoint.address();
    const std::string text = address.to_string();
    seen += fmt::format("{}{} {}", seen.empty() ? "" : ", ", entry->ifa_name, text);
    if (interface == entry->ifa_name || interface == text) matches.push_back(address);
  }
  if (matches.empty()) {
    throw Error(Errc::bad_configuration,
                fmt::format("RONDO_INTERFACE: got \"{}\", wanted one of {}", printable(interface, 64), seen));
  }
  const auto v4 = std::find_if(matches.begin(), matches.end(), [](const auto& a) { return a.is_v4(); });
  return v4 == matches.end() ? matches.front() : *v4;
}

Descriptor listen_on(const asio::ip::tcp::endpoint& endpoint) {
  const std::string name = endpoint.port() == 0
                               ? endpoint.address().to_string()
                               : fmt::format("port {} of {}", endpoint.port(), endpoint.address().to_string());
  if (endpoint.address().is_unspecified()) {
    throw Error(Errc::bad_configuration, fmt::format("cannot listen on {}: got the wildcard, wanted one address that "
                                                     "the other ranks reach",
                                                     name));
  }
  return open_listener(endpoint.protocol().family(), endpoint.data(), static_cast<socklen_t>(endpoint.size()), name);
}

Descriptor listen_on_name(const std::string& abstract_name) {
  sockaddr_un address{};
  const socklen_t length = unix_address(abstract_name, address);
  return open_listener(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), length, "unix:@" + abstract_name);
}

asio::ip::tcp::endpoint bound_to(int socket) {
  asio::ip::tcp::endpoint endpoint;
  auto length = static_cast<socklen_t>(endpoint.capacity());
  if (::getsockname(socket, endpoint.data(), &length) != 0) {
    throw Error(Errc::system, "cannot tell the port of a listening socket: " + system_text(errno));
  }
  endpoint.resize(length);
  return endpoint;
}

bool same_user(int socket) {
  ucred other{};
  socklen_t length = sizeof other;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == ::geteuid();
}

void end_when_host_is_lost(int socket) noexcept {
  constexpr int kProbes = 3;
  constexpr int kApart = 5;
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kSilenceSeconds - kProbes * kApart);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kApart);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

void end_when_not_read(int socket) noexcept { set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceSeconds * 1000); }

bool host_is_silent(int socket) noexcept {
  tcp_info now{};
  socklen_t length = sizeof now;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &now, &length) != 0) return false;
  return now.tcpi_unacked > 0 && now.tcpi_last_ack_recv > kSilenceSeconds * 1000U;
}

socklen_t unix_address(const std::string& abstract_name, sockaddr_un& address) {
  if (abstract_name.empty() || abstract_name.size() + 1 > sizeof address.sun_path) {
    throw Error(Errc::bad_configuration, fmt::format("unix socket: got a name of {} bytes, wanted 1 to {}",
                                                     abstract_name.size(), sizeof address.sun_path - 1));
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, abstract_name.data(), abstract_name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + abstract_name.size());
}

}  // namespace rondo::detail
