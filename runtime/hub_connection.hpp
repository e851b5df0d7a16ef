#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "runtime/notice.hpp"
#include "transport/descriptor.hpp"
#include "transport/handshake.hpp"

namespace rondo::detail {

/// The hub's end of one connection: a stranger's handshake first (not on adopted connections), then control
/// messages. Never blocks, and keeps a bounded number of unsent bytes. The hub arms the waits and decides
/// what follows.
class HubConnection {
 public:
  /// `where`: who it is, for texts ("127.0.0.1:40112", "pid 812"). Makes `socket` non-blocking.
  HubConnection(asio::io_context& context, Descriptor socket, std::string where, std::size_t unsent_limit);

  enum class Input : std::uint8_t { some, nothing, ended };
  /// Takes some of what has come, one buffer at most, and no byte beyond a handshake that is still going on.
  Input read();
  /// Messages taken apart. Throws Error{protocol}.
  std::optional<ControlMessage> next() { return reader_.next(); }

  /// Queues and tries to write at once. False when the queue is full or the connection is broken.
  bool send(const std::string& bytes);
  bool flush();
  bool unsent() const noexcept { return !unsent_.empty(); }
  /// No more will be sent; the other side sees the end after what was queued.
  void finish_sending();

  asio::posix::stream_descriptor stream;
  asio::steady_timer timer;
  std::string where;
  std::optional<Handshake> handshake;  ///< until the rank is known
  int rank = -1;                       ///< known once authenticated, or adopted
  bool waiting_to_write = false;
  bool last_words = false;  ///< nothing is taken from it any more; it goes when the rest is written

 private:
  ControlReader reader_;
  std::string unsent_;
  std::size_t unsent_limit_;
};

}  // namespace rondo::detail
