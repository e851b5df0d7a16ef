#include "runtime/hub_connection.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "transport/system_errors.hpp"

namespace rondo::detail {

HubConnection::HubConnection(asio::io_context& context, Descriptor socket, std::string from, std::size_t unsent_limit)
    : stream(context), timer(context), where(std::move(from)), unsent_limit_(unsent_limit) {
  const int fd = socket.get();
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  stream.assign(fd);
  socket.release();
}

HubConnection::Input HubConnection::read() {
  std::array<std::byte, 4096> buffer;
  const std::size_t room = handshake && !last_words ? std::min(handshake->wanted(), buffer.size()) : buffer.size();
  const ssize_t got = ::recv(stream.native_handle(), buffer.data(), room, MSG_DONTWAIT);
  if (got < 0) return try_again(errno) ? Input::nothing : Input::ended;
  if (got == 0) return Input::ended;
  const auto bytes = std::span<const std::byte>(buffer).first(static_cast<std::size_t>(got));
  if (last_words) return Input::some;
  if (handshake) {
    handshake->feed(bytes);
  } else {
    reader_.feed(bytes);
  }
  return Input::some;
}

bool HubConnection::send(const std::string& bytes) {
  if (unsent_.size() + bytes.size() > unsent_limit_) return false;
  unsent_ += bytes;
  return flush();
}

bool HubConnection::flush() {
  if (handshake) {
    const auto output = handshake->output();
    unsent_.append(reinterpret_cast<const char*>(output.data()), output.size());
    handshake->sent(output.size());
  }
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(stream.native_handle(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
      // The other side has left. Its last words (a goodbye, most often) may still be unread: reading tells why.
      unsent_.clear();
      return true;
    }
    if (sent < 0) return try_again(errno);
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

void HubConnection::finish_sending() { ::shutdown(stream.native_handle(), SHUT_WR); }

}  // namespace rondo::detail
