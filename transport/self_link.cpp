#include "transport/self_link.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace rondo::detail {

SelfLink::SelfLink() : sent_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!sent_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void SelfLink::send(Outgoing& frame) {
  frame.written = 0;
  queue_.push(frame);
  if (!std::exchange(signalled_, true)) (void)::eventfd_write(sent_.get(), 1);
}

std::size_t SelfLink::poll(Sink& sink) {
  if (std::exchange(signalled_, false)) {
    eventfd_t value = 0;
    (void)::eventfd_read(sent_.get(), &value);
  }
  std::size_t moved = 0;
  while (Outgoing* const frame = queue_.head()) {
    const FrameHeader header = frame->header;
    sink.deliver(header, frame->payload);
    ++moved;
    if (queue_.head() != frame) continue;  // taken back meanwhile
    queue_.pop();
    frame->on_sent(*frame);
  }
  return moved;
}

}  // namespace rondo::detail
