#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "transport/link.hpp"

namespace rondo::detail {

/// Frames whose senders took them back when a part was already on its way: finished from copies.
class DetachedFrames {
 public:
  /// Puts a copy of `frame` in its place in the queue.
  void take_over(FrameQueue& queue, Outgoing& frame) {
    auto copy = std::make_unique<Detached>(frame);
    if (queue.replace(frame, copy.get())) frames_.push_back(std::move(copy));
  }
  /// A frame has left the queue: tells its sender, or lets the copy go.
  void sent(Outgoing& frame) {
    if (frame.on_sent) return frame.on_sent(frame);
    std::erase_if(frames_, [&](const auto& copy) { return copy.get() == &frame; });
  }

 private:
  struct Detached : Outgoing {
    explicit Detached(const Outgoing& frame) : Outgoing(frame), copy(frame.payload.begin(), frame.payload.end()) {
      payload = copy;
      on_sent = nullptr;
    }
    std::vector<std::byte> copy;
  };

  std::vector<std::unique_ptr<Detached>> frames_;
};

}  // namespace rondo::detail
