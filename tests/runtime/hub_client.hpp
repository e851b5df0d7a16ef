#pragma once

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include <asio/io_context.hpp>

#include "runtime/endpoint.hpp"
#include "runtime/hub.hpp"
#include "transport/descriptor.hpp"

/// Runs the hub's context until `done`, or throws after `limit`. Tests and their hub share one thread, so nothing has
/// to be waited for by sleeping.
inline void run_until(asio::io_context& context, const std::function<bool()>& done,
                      std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) throw std::runtime_error("the hub did not get there in time");
    context.restart();
    context.run_one_for(std::chrono::milliseconds(1));
  }
}

/// The other end of one of the hub's connections, spoken by hand.
class HubClient {
 public:
  HubClient(asio::io_context& context, rondo::detail::Descriptor socket)
      : context_(context), socket_(std::move(socket)) {}

  /// A launcher's connection, known to be rank's.
  static HubClient adopted(asio::io_context& context, rondo::detail::Hub& hub, int rank) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("socketpair");
    hub.adopt(pair[1], rank);
    return {context, rondo::detail::Descriptor(pair[0])};
  }

  /// A stranger's, to "127.0.0.1:port".
  static HubClient stranger(asio::io_context& context, const std::string& address) {
    const auto meeting = rondo::detail::split_host_port(address, "test");
    const auto endpoint = rondo::detail::resolve(meeting.host, meeting.port).front();
    rondo::detail::Descriptor socket(::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0) {
      throw std::runtime_error("connect");
    }
    return {context, std::move(socket)};
  }

  void send(std::span<const std::byte> bytes) {
    if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("send");
    }
  }
  void send(const std::string& bytes) { send(std::as_bytes(std::span(bytes))); }
  void tell(const rondo::detail::ControlMessage& message) { send(encode(message)); }

  /// The next message; throws when the hub ended the connection.
  rondo::detail::ControlMessage next() {
    std::optional<rondo::detail::ControlMessage> message;
    run_until(context_, [&] {
      if (!(message = reader_.next()) && read() && ended_) throw std::runtime_error("the hub ended the connection");
      return message.has_value();
    });
    return *message;
  }

  template <typename T>
  T expect() {
    return std::get<T>(next());
  }

  /// Whether the hub ends this connection; what it says before is thrown away.
  bool ends() {
    run_until(context_, [&] { return read() && ended_; });
    return true;
  }

  /// Lets both sides of a handshake talk to its verdict.
  rondo::detail::Verdict shake_hands(rondo::detail::Handshake& handshake) {
    run_until(context_, [&] {
      if (!handshake.output().empty()) {
        send(handshake.output());
        handshake.sent(handshake.output().size());
      }
      if (handshake.done()) return true;
      std::array<std::byte, 256> buffer;
      const ssize_t got = ::recv(socket_.get(), buffer.data(), handshake.wanted(), MSG_DONTWAIT);
      if (got > 0) handshake.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
      if (got == 0) throw std::runtime_error("the hub ended the connection");
      return handshake.done() && handshake.output().empty();
    });
    return handshake.verdict();
  }

  void close() { socket_.reset(); }
  int descriptor() const { return socket_.get(); }

 private:
  /// True when there is something new: bytes, or the end.
  bool read() {
    std::array<std::byte, 4096> buffer;
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return false;
    ended_ = got <= 0;
    if (got > 0) reader_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    return true;
  }

  asio::io_context& context_;
  rondo::detail::Descriptor socket_;
  rondo::detail::ControlReader reader_{std::size_t{1} << 24};
  bool ended_ = false;
};
