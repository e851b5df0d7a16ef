#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// "127.0.0.1:4711", "[::1]:4711".
std::string to_string(const asio::ip::tcp::endpoint& endpoint);

struct HostPort {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
};
/// Takes "host:port" or "[v6]:port" apart. Throws Error{bad_configuration}; `who` names where the text came
/// from.
HostPort split_host_port(std::string_view text, std::string_view who);

/// A port number, 1 to 65535. Throws Error{bad_configuration}.
std::uint16_t parse_port(std::string_view text, std::string_view who);

/// The addresses of `host`. A numeric address, and "localhost" (127.0.0.1), ask no resolver; a name asks it
/// once. Throws Error{bootstrap_failed}.
std::vector<asio::ip::tcp::endpoint> resolve(const std::string& host, std::uint16_t port);

/// The address of an interface of this host, given by its name or as its address; IPv4 first.
/// Throws Error{bad_configuration} that lists the interfaces there are.
asio::ip::address interface_address(const std::string& interface);

/// A bound and listening socket, close-on-exec and non-blocking. Never the wildcard. Throws
/// Error{address_in_use}, Error{bad_configuration} (not an address of this host), Error{system}.
Descriptor listen_on(const asio::ip::tcp::endpoint& endpoint);
/// The same on an abstract Unix name (no file).
Descriptor listen_on_name(const std::string& abstract_name);

/// Where a socket is bound, its port too where the system has chosen it. Throws Error{system}.
asio::ip::tcp::endpoint bound_to(int socket);
/// Who is at the other end of a Unix socket, as the kernel says: an abstract name can be taken by anybody on the host.
bool same_user(int socket);

// A host that has lost its power, or the network, says nothing of that. What is no TCP connection is left as it is.
inline constexpr int kSilenceSeconds = 25;
/// Has the connection end when nothing has been heard of its other host for so long while nothing was on its way there.
void end_when_host_is_lost(int socket) noexcept;
/// The same while something is on its way. Only where the other side reads what comes at any time: to the kernel one
/// that does not is as silent.
void end_when_not_read(int socket) noexcept;
/// While something is on its way, whether nothing has been heard of the other host for so long.
bool host_is_silent(int socket) noexcept;

/// Fills in the address of an abstract Unix name and returns its length. Throws Error{bad_configuration}.
socklen_t unix_address(const std::string& abstract_name, sockaddr_un& address);

}  // namespace rondo::detail
