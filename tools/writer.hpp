#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <asio/io_context.hpp>

namespace rondo::detail {

/// Writes to one descriptor of the launcher (its standard output or error) without ever blocking its event loop.
///
/// By a thread, and not by O_NONBLOCK: that flag would be set for every process that shares the descriptor, the user's
/// shell among them. Used by the loop's thread.
class Writer {
 public:
  static constexpr std::size_t kLimitBytes = std::size_t{1} << 20;

  /// `changed` runs on the loop after there is room again, after all is written, and after a failure.
  Writer(asio::io_context& context, int descriptor, std::function<void()> changed);
  /// Waits until all is written.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Queues a block, always; whoever can wait asks full() first. After a failure it is dropped.
  void write(std::string_view block);
  bool full() const;
  bool idle() const;
  /// errno of the write that failed, and ended the writing; 0 while all is well.
  int error() const;

 private:
  void run();
  int write_all(std::string_view block) const;

  asio::io_context& context_;
  const int descriptor_;
  const std::function<void()> changed_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::string queue_;
  std::size_t pending_bytes_ = 0;  ///< queued and being written
  int error_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rondo::detail
