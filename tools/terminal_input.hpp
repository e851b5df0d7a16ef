#pragma once

#include <array>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Passes what is typed at the launcher's terminal on to rank 0, which cannot read it itself: it is not in the
/// terminal's foreground group. (Any other standard input rank 0 simply inherits.)
class TerminalInput {
 public:
  TerminalInput(asio::io_context& context, Descriptor to_rank);

  /// Again in the foreground, perhaps.
  void resume();
  void close();

 private:
  void wait();
  void read();

  asio::posix::stream_descriptor terminal_;
  asio::posix::stream_descriptor to_rank_;
  std::array<char, 4096> typed_{};
  bool waiting_ = false;
};

}  // namespace rondo::detail
