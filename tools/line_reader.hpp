#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Reads a rank's standard output or error and hands on whole lines. Lives on one io_context.
class LineReader {
 public:
  /// A longer line is handed on in pieces, so that a rank that writes no line's end cannot fill the memory.
  static constexpr std::size_t kLimitBytes = std::size_t{256} << 10;

  /// Gets one or more lines with their ends; only the last one at the pipe's end, or a piece of a line that is too
  /// long, comes without.
  using Sink = std::function<void(std::string_view lines)>;

  /// Asks `may_read` before each read; when it said no, resume() goes on. `ended` runs once, after the last line.
  LineReader(asio::io_context& context, Descriptor pipe, Sink sink, std::function<bool()> may_read,
             std::function<void()> ended);

  void resume();
  /// No rank is left to write: what is in the pipe now is the rest, even if a stranger holds its other end.
  void finish();
  /// Stops reading; a rank that goes on writing gets SIGPIPE, as if it wrote to what the launcher wrote to.
  void close();
  bool ended() const { return ended_; }

 private:
  void wait();
  void read();
  void take(std::string_view bytes);
  void end();

  asio::posix::stream_descriptor pipe_;
  Sink sink_;
  std::function<bool()> may_read_;
  std::function<void()> on_ended_;
  std::string partial_;  ///< the beginning of a line
  bool waiting_ = false;
  bool finishing_ = false;
  bool ended_ = false;
};

}  // namespace rondo::detail
