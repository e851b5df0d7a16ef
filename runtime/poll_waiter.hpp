#pragma once

#include "runtime/waiter.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Blocks in poll(2). An epoll set would be told of every packet that comes, also while nobody sleeps: over TCP on
/// loopback that takes a sender longer than all that this library does for a message. (So would Asio, which has one.)
class PollWaiter final : public Waiter {
 public:
  PollWaiter();

  void wait(WakeList& wakes, Duration timeout) override;
  void wake() noexcept override;

 private:
  Descriptor event_;
};

}  // namespace rondo::detail
