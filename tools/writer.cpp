#include "tools/writer.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <asio/post.hpp>

#include "runtime/quiet_thread.hpp"

namespace rondo::detail {

Writer::Writer(asio::io_context& context, int descriptor, std::function<void()> changed)
    : context_(context), descriptor_(descriptor), changed_(std::move(changed)) {
  thread_ = quiet_thread([this] { run(); });
}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Writer::write(std::string_view block) {
  if (block.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (error_ != 0) return;
    queue_ += block;
    pending_bytes_ += block.size();
  }
  wake_.notify_one();
}

bool Writer::full() const {
  const std::lock_guard lock(mutex_);
  return pending_bytes_ >= kLimitBytes;
}

bool Writer::idle() const {
  const std::lock_guard lock(mutex_);
  return pending_bytes_ == 0;
}

int Writer::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void Writer::run() {
  std::string batch;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    batch.clear();
    batch.swap(queue_);
    lock.unlock();
    const int error = write_all(batch);
    lock.lock();
    pending_bytes_ -= batch.size();
    if (error != 0) {
      error_ = error;
      pending_bytes_ = 0;
      queue_.clear();
    }
    asio::post(context_, changed_);
  }
}

int Writer::write_all(std::string_view block) const {
  while (!block.empty()) {
    const ssize_t written = ::write(descriptor_, block.data(), block.size());
    if (written >= 0) {
      block.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // somebody else made it non-blocking
      pollfd room{descriptor_, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace rondo::detail
