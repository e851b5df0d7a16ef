#pragma once

#include "runtime/waiter.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Blocks in poll(2). An epoll set would be told of every packet that comes, also while nobody sleeps: that took
/// senders a tenth of a short all_reduce over TCP on loopback. (Asio has one.)
class PollWaiter final : public Waiter {
 public:
  PollWaiter();

  void wait(WakeList& wakes, Duration timeout) override;
  void wake() noexcept override;

 private:
  Descriptor event_;
};

}  // namespace rondo::detail
