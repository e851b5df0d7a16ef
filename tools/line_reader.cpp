#include "tools/line_reader.hpp"

#include <array>
#include <utility>

#include <asio/buffer.hpp>
#include <asio/error.hpp>

namespace rondo::detail {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;  // what a pipe holds

}  // namespace

LineReader::LineReader(asio::io_context& context, Descriptor pipe, Sink sink, std::function<bool()> may_read,
                       std::function<void()> ended)
    : pipe_(context, pipe.release()),
      sink_(std::move(sink)),
      may_read_(std::move(may_read)),
      on_ended_(std::move(ended)) {
  pipe_.non_blocking(true);
}

void LineReader::resume() {
  if (ended_ || waiting_ || !may_read_()) return;
  if (finishing_) {
    read();
  } else {
    wait();
  }
}

void LineReader::finish() {
  finishing_ = true;
  if (ended_) return;
  if (waiting_) {
    pipe_.cancel();  // the wait's handler then reads
  } else {
    resume();
  }
}

void LineReader::close() {
  if (!ended_) end();
}

void LineReader::wait() {
  waiting_ = true;
  pipe_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code&) {
    waiting_ = false;
    if (!ended_) read();
  });
}

void LineReader::read() {
  static std::array<char, kReadBytes> buffer;
  do {
    if (!may_read_()) return;
    asio::error_code error;
    const std::size_t got = pipe_.read_some(asio::buffer(buffer), error);
    if (got > 0) {
      take({buffer.data(), got});
    } else if (error != asio::error::would_block || finishing_) {
      return end();
    }
  } while (finishing_);
  wait();
}

void LineReader::take(std::string_view bytes) {
  const auto last_end = bytes.rfind('\n');
  if (last_end == std::string_view::npos) {
    partial_ += bytes;
  } else {
    partial_ += bytes.substr(0, last_end + 1);
    sink_(partial_);
    partial_ = bytes.substr(last_end + 1);
  }
  if (partial_.size() >= kLimitBytes) {
    sink_(partial_);
    partial_.clear();
  }
}

void LineReader::end() {
  ended_ = true;
  if (!partial_.empty()) sink_(partial_);
  partial_.clear();
  asio::error_code ignored;
  pipe_.close(ignored);
  on_ended_();
}

}  // namespace rondo::detail
