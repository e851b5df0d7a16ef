#pragma once

#include <unordered_map>

#include "runtime/waiter.hpp"
#include "transport/descriptor.hpp"

namespace rondo::detail {

/// One epoll for every descriptor of an engine. It is told of a change only before a thread blocks, so the message path
/// makes no epoll_ctl. (Asio's `async_wait` would make one for each wait, hence not Asio here.)
class EpollWaiter final : public Waiter {
 public:
  EpollWaiter();

  void wait(Duration timeout) override;
  void wake() noexcept override;
  void watch(int descriptor, bool writable) override;
  void forget(int descriptor) noexcept override;

 private:
  Descriptor epoll_;
  Descriptor event_;
  std::unordered_map<int, bool> watched_;  // descriptor -> also for writing
};

}  // namespace rondo::detail
