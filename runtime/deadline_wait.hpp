#pragma once

#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "runtime/clock.hpp"

namespace rondo::detail {

/// "300 s", "0.5 s": for texts.
std::string seconds_text(Duration duration);

/// Blocks this thread, by Asio, until a descriptor is ready or a time has come: for start-up code that reads straight
/// down.
class DeadlineWait {
 public:
  /// False when `until` came first.
  bool readable(int descriptor, Time until) {
    return ready(descriptor, asio::posix::stream_descriptor::wait_read, until);
  }
  bool writable(int descriptor, Time until) {
    return ready(descriptor, asio::posix::stream_descriptor::wait_write, until);
  }
  void pause(Time until);

 private:
  bool ready(int descriptor, asio::posix::stream_descriptor::wait_type type, Time until);

  asio::io_context context_{1};
};

}  // namespace rondo::detail
