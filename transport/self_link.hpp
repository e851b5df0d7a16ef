#pragma once

#include "transport/descriptor.hpp"
#include "transport/link.hpp"

namespace rondo::detail {

/// A rank's messages to itself: a poll delivers what was sent, out of where it lies.
class SelfLink final : public Link {
 public:
  /// Throws std::system_error.
  SelfLink();

  void send(Outgoing& frame) override;
  void release(Outgoing& frame) override { queue_.replace(frame, nullptr); }
  void discard() override {}
  std::size_t poll(Sink& sink) override;
  bool flushed() const override { return queue_.empty(); }
  void shut_down() noexcept override {}
  bool drained() const override { return true; }
  int descriptor() const override { return sent_.get(); }
  bool wants_write() const override { return false; }
  std::string_view transport() const override { return "loopback"; }

 private:
  FrameQueue queue_;
  Descriptor sent_;  ///< readable while `signalled_`: another thread of the rank may be asleep
  bool signalled_ = false;
};

}  // namespace rondo::detail
