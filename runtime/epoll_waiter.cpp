#include "runtime/epoll_waiter.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <thread>

namespace rondo::detail {
namespace {

Descriptor checked(int fd, const char* what) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
  return Descriptor(fd);
}

}  // namespace

EpollWaiter::EpollWaiter()
    : epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      event_(checked(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")) {
  watch(event_.get(), false);
}

void EpollWaiter::wait(Duration timeout) {
  std::array<epoll_event, 16> events;
  // epoll counts in milliseconds. Shorter than one is only the sleep while something else is at work.
  const bool brief = timeout < std::chrono::milliseconds(1);
  const auto ms = brief ? 0 : std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(ms));
  if (ready == 0 && brief) std::this_thread::sleep_for(timeout);
  for (int i = 0; i < ready; ++i) {
    if (events[static_cast<std::size_t>(i)].data.fd != event_.get()) continue;
    eventfd_t value = 0;
    (void)::eventfd_read(event_.get(), &value);
  }
}

void EpollWaiter::wake() noexcept { (void)::eventfd_write(event_.get(), 1); }

void EpollWaiter::watch(int descriptor, bool writable) {
  const auto [entry, added] = watched_.try_emplace(descriptor, writable);
  if (!added && entry->second == writable) return;
  entry->second = writable;
  epoll_event event{};
  event.events = writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.fd = descriptor;
  if (::epoll_ctl(epoll_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
}

void EpollWaiter::forget(int descriptor) noexcept {
  if (watched_.erase(descriptor) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

}  // namespace rondo::detail
