#include "tools/terminal_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/write.hpp>

namespace rondo::detail {

TerminalInput::TerminalInput(asio::io_context& context, Descriptor to_rank)
    : terminal_(context), to_rank_(context, to_rank.release()) {
  // Opened anew, because O_NONBLOCK on the inherited descriptor would hold for the user's shell too.
  const int fd = ::open("/proc/self/fd/0", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    close();
  } else {
    terminal_.assign(fd);
    resume();
  }
}

void TerminalInput::resume() {
  // Whoever reads its terminal from the background is stopped by the kernel.
  if (terminal_.is_open() && !waiting_ && ::tcgetpgrp(terminal_.native_handle()) == ::getpgrp()) wait();
}

void TerminalInput::close() {
  asio::error_code ignored;
  terminal_.close(ignored);
  to_rank_.close(ignored);
}

void TerminalInput::wait() {
  waiting_ = true;
  terminal_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    waiting_ = false;
    if (!error && ::tcgetpgrp(terminal_.native_handle()) == ::getpgrp()) read();
  });
}

void TerminalInput::read() {
  asio::error_code error;
  const std::size_t got = terminal_.read_some(asio::buffer(typed_), error);
  if (error == asio::error::would_block) return wait();
  if (error) return close();  // Ctrl-D, or the terminal is gone
  waiting_ = true;
  asio::async_write(to_rank_, asio::buffer(typed_.data(), got), [this](const asio::error_code& failed, std::size_t) {
    waiting_ = false;
    if (failed) return close();
    resume();
  });
}

}  // namespace rondo::detail
