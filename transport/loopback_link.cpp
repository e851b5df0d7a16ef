#include "transport/loopback_link.hpp"

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <vector>

#include "transport/descriptor.hpp"

namespace rondo::detail {
namespace {

// Wakes whoever blocks on the descriptor. One system call for any number of raises until it is taken.
class Signal {
 public:
  Signal() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  void raise() noexcept {
    if (!raised_.exchange(true)) (void)::eventfd_write(event_.get(), 1);
  }
  /// Call it before looking for what was signalled: a raise from then on is a new one.
  void take() noexcept {
    if (!raised_.load(std::memory_order_relaxed)) return;
    raised_.store(false);
    eventfd_t value = 0;
    (void)::eventfd_read(event_.get(), &value);
  }
  int descriptor() const noexcept { return event_.get(); }

 private:
  Descriptor event_;
  std::atomic<bool> raised_{false};
};

}  // namespace

/// One direction: a bounded queue of whole frames, and a signal for each of its two ends.
class LoopbackLink::Pipe {
 public:
  struct Frame {
    FrameHeader header;
    std::vector<std::byte> payload;
  };

  explicit Pipe(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// The signals that the end which reads this pipe, and the end which writes it, blocks on.
  void set_ends(std::shared_ptr<Signal> reader, std::shared_ptr<Signal> writer) {
    reader_ = std::move(reader);
    writer_ = std::move(writer);
  }
  Signal& reader() const { return *reader_; }

  // False: full. The writer is signalled when that has changed.
  bool push(const Outgoing& frame) {
    const std::lock_guard lock(mutex_);
    if (reader_gone_) return true;
    const std::size_t bytes = sizeof(FrameHeader) + frame.payload.size();
    if (!frames_.empty() && held_bytes_ + bytes > capacity_bytes_) {
      writer_waits_ = true;
      return false;
    }
    frames_.push_back({frame.header, {frame.payload.begin(), frame.payload.end()}});
    held_bytes_ += bytes;
    reader_->raise();
    return true;
  }

  std::optional<Frame> pop() {
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return std::nullopt;
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    held_bytes_ -= sizeof(FrameHeader) + frame.payload.size();
    if (std::exchange(writer_waits_, false)) writer_->raise();
    return frame;
  }

  bool empty() {
    const std::lock_guard lock(mutex_);
    return frames_.empty();
  }

  void close_writer() noexcept {
    const std::lock_guard lock(mutex_);
    writer_gone_ = true;
    reader_->raise();
  }
  void close_reader() noexcept {
    const std::lock_guard lock(mutex_);
    reader_gone_ = true;
    writer_->raise();
  }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return writer_gone_ && frames_.empty();
  }

 private:
  const std::size_t capacity_bytes_;
  std::mutex mutex_;
  std::deque<Frame> frames_;
  std::size_t held_bytes_ = 0;
  bool writer_waits_ = false;
  bool writer_gone_ = false;
  bool reader_gone_ = false;
  std::shared_ptr<Signal> reader_;
  std::shared_ptr<Signal> writer_;
};

LoopbackLink::LoopbackLink(std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in)
    : out_(std::move(out)), in_(std::move(in)) {}

LoopbackLink::~LoopbackLink() {
  out_->close_writer();
  in_->close_reader();
}

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> LoopbackLink::make_pair(std::size_t capacity_bytes) {
  auto there = std::make_shared<Pipe>(capacity_bytes);
  auto back = std::make_shared<Pipe>(capacity_bytes);
  auto left = std::make_shared<Signal>();
  auto right = std::make_shared<Signal>();
  there->set_ends(right, left);
  back->set_ends(left, right);
  return {std::unique_ptr<Link>(new LoopbackLink(there, back)), std::unique_ptr<Link>(new LoopbackLink(back, there))};
}

std::unique_ptr<Link> LoopbackLink::make_self(std::size_t capacity_bytes) {
  auto pipe = std::make_shared<Pipe>(capacity_bytes);
  auto signal = std::make_shared<Signal>();
  pipe->set_ends(signal, signal);
  return std::unique_ptr<Link>(new LoopbackLink(pipe, pipe));
}

void LoopbackLink::send(Outgoing& frame) {
  frame.written = 0;
  queue_.push(frame);
  flush();
}

std::size_t LoopbackLink::flush() {
  std::size_t moved = 0;
  while (!queue_.empty() && out_->push(*queue_.head())) {
    Outgoing& frame = queue_.pop();
    frame.on_sent(frame);
    ++moved;
  }
  return moved;
}

std::size_t LoopbackLink::poll(Sink& sink) {
  in_->reader().take();
  std::size_t moved = flush();
  while (auto frame = in_->pop()) {
    sink.deliver(frame->header, frame->payload);
    ++moved;
  }
  if (!closed_ && in_->ended()) {
    closed_ = true;
    ++moved;
    sink.closed("the connection was closed");
  }
  return moved;
}

bool LoopbackLink::flushed() const { return closed_ || (queue_.empty() && (out_ != in_ || in_->empty())); }

void LoopbackLink::shut_down() noexcept { out_->close_writer(); }

int LoopbackLink::descriptor() const { return in_->reader().descriptor(); }

}  // namespace rondo::detail
