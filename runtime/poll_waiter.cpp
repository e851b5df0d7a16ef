#include "runtime/poll_waiter.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <span>
#include <system_error>

namespace rondo::detail {

PollWaiter::PollWaiter() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void PollWaiter::wait(WakeList& wakes, Duration timeout) {
  wakes.add(event_.get(), false);
  const std::span<pollfd> polled = wakes.polled();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
  const timespec at_most{seconds.count(), (timeout - seconds).count()};
  if (::ppoll(polled.data(), polled.size(), &at_most, nullptr) < 0) return;
  wakes.waited();
  if (polled.back().revents == 0) return;
  eventfd_t value = 0;
  (void)::eventfd_read(event_.get(), &value);
}

void PollWaiter::wake() noexcept { (void)::eventfd_write(event_.get(), 1); }

}  // namespace rondo::detail
