#include "runtime/hub_call.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include <fmt/format.h>

#include "runtime/deadline_wait.hpp"
#include "runtime/endpoint.hpp"
#include "transport/system_errors.hpp"

namespace rondo::detail {
namespace {

/// The error of the attempt; 0 when connected.
int connect_until(DeadlineWait& wait, int socket, const sockaddr* address, socklen_t length, Time until) {
  if (::connect(socket, address, length) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait.writable(socket, until)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::string ending_text(int error) {
  const bool ended = error == 0 || error == ECONNRESET || error == EPIPE;
  return ended ? "it ended the connection before the handshake" : system_text(error);
}

/// Empty when all output is written.
std::string write_output(DeadlineWait& wait, int socket, Handshake& handshake, Time until) {
  while (!handshake.output().empty()) {
    const auto output = handshake.output();
    const ssize_t sent = ::send(socket, output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      handshake.sent(static_cast<std::size_t>(sent));
    } else if (!try_again(errno)) {
      return ending_text(errno);
    } else if (!wait.writable(socket, until)) {
      return "it takes no bytes";
    }
  }
  return {};
}

/// Drives the handshake to its verdict. Returns why there is none, if so.
std::string shake_hands(DeadlineWait& wait, int socket, Handshake& handshake, Time until) {
  std::array<std::byte, 256> buffer;
  for (;;) {
    if (auto failed = write_output(wait, socket, handshake, until); !failed.empty()) return failed;
    if (handshake.done()) return {};
    const ssize_t got = ::recv(socket, buffer.data(), std::min(buffer.size(), handshake.wanted()), MSG_DONTWAIT);
    if (got > 0) {
      handshake.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    } else if (got == 0 || !try_again(errno)) {
      return ending_text(got == 0 ? 0 : errno);
    } else if (!wait.readable(socket, until)) {
      return "it accepts connections but does not answer";
    }
  }
}

}  // namespace

HubCall call_hub(const sockaddr* address, socklen_t length, const HandshakeTerms& terms, const JobKey& key,
                 Time until) {
  HubCall call;
  Descriptor socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    call.cause = system_text(errno);
    return call;
  }
  DeadlineWait wait;
  if (const int error = connect_until(wait, socket.get(), address, length, until); error != 0) {
    call.cause = system_text(error);
    return call;
  }
  call.connected = true;
  if (address->sa_family == AF_UNIX && !same_user(socket.get())) {
    call.cause = "a process of another user listens there";
    return call;
  }
  Handshake handshake = Handshake::initiate(terms, key);
  call.cause = shake_hands(wait, socket.get(), handshake, until);
  if (!handshake.done()) return call;
  call.verdict = handshake.verdict();
  if (call.verdict == Verdict::accepted) {
    call.cause.clear();
    call.socket = std::move(socket);
  } else {
    call.cause = handshake.text();
  }
  return call;
}

}  // namespace rondo::detail
