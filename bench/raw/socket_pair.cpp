#include "bench/raw/socket_pair.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <vector>

#include "bench/checked.hpp"

namespace rondo::bench {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

sockaddr* generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

/// Calls `transfer(pointer, bytes)`, which gives what send and recv give, until all bytes have gone.
template <typename Byte, typename Transfer>
void transfer_all(std::span<Byte> data, const char* what, Transfer&& transfer) {
  while (!data.empty()) {
    const ssize_t moved = transfer(data.data(), data.size());
    if (moved > 0) {
      data = data.subspan(static_cast<std::size_t>(moved));
    } else if (moved == 0) {
      throw std::system_error(ECONNRESET, std::generic_category(), what);
    } else if (errno != EAGAIN && errno != EINTR) {
      fail(what);
    }
  }
}

}  // namespace

SocketPair::SocketPair() {
  const int listener = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  checked(bind(listener, generic(address), sizeof(address)), "bind");
  checked(listen(listener, 1), "listen");
  child_ = checked(fork(), "fork");
  if (child_ == 0) {
    rank_ = 1;
    connect_as_child(listener);
  } else {
    connect_as_parent(listener);
  }
  close(listener);
  const int on = 1;
  checked(setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
}

void SocketPair::connect_as_parent(int listener) {
  socket_ = checked(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), "accept");
}

void SocketPair::connect_as_child(int listener) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  checked(getsockname(listener, generic(address), &length), "getsockname");
  socket_ = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  checked(connect(socket_, generic(address), length), "connect");
}

SocketPair::~SocketPair() { close(socket_); }

void SocketPair::send(std::span<const std::byte> data) const {
  transfer_all(data, "send", [this](const std::byte* from, std::size_t bytes) {
    return ::send(socket_, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

void SocketPair::recv(std::span<std::byte> data) const {
  transfer_all(data, "recv",
               [this](std::byte* into, std::size_t bytes) { return ::recv(socket_, into, bytes, MSG_DONTWAIT); });
}

void SocketPair::barrier() {
  std::byte token{};
  send({&token, 1});
  recv({&token, 1});
}

void SocketPair::fold(std::span<double> values, Fold how) {
  // One direction after the other: both sending first could fill both sockets and stop.
  std::vector<double> theirs(values.size());
  const auto mine = std::as_bytes(values);
  const auto other = std::as_writable_bytes(std::span(theirs));
  if (rank_ == 0) send(mine);
  recv(other);
  if (rank_ == 1) send(mine);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = how == Fold::max ? std::max(values[i], theirs[i]) : values[i] + theirs[i];
}

bool SocketPair::join() {
  int status = 0;
  while (waitpid(child_, &status, 0) < 0) {
    if (errno != EINTR) fail("waitpid");
  }
  return status == 0;
}

}  // namespace rondo::bench
