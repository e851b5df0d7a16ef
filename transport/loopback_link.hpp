#pragma once

#include <memory>
#include <utility>

#include "transport/link.hpp"

namespace rondo::detail {

/// A Link inside one process: a rank's messages to itself, and ranks that are threads. Each end may be driven by its
/// own thread. A direction takes `capacity_bytes` (at least one frame) before it makes the sender wait.
class LoopbackLink final : public Link {
 public:
  static constexpr std::size_t kCapacityBytes = std::size_t{1} << 20;

  /// The two ends of a connection.
  static std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_pair(std::size_t capacity_bytes = kCapacityBytes);
  /// One end that reads what it sends.
  static std::unique_ptr<Link> make_self(std::size_t capacity_bytes = kCapacityBytes);

  ~LoopbackLink() override;

  void send(Outgoing& frame) override;
  void release(Outgoing& frame) override { queue_.replace(frame, nullptr); }
  void discard() override {}
  std::size_t poll(Sink& sink) override;
  /// To itself: and delivered.
  bool flushed() const override;
  void shut_down() noexcept override;
  bool drained() const override { return true; }
  int descriptor() const override;
  bool wants_write() const override { return false; }
  std::string_view transport() const override { return "loopback"; }

 private:
  class Pipe;

  LoopbackLink(std::shared_ptr<Pipe> out, std::shared_ptr<Pipe> in);
  std::size_t flush();

  std::shared_ptr<Pipe> out_;
  std::shared_ptr<Pipe> in_;
  FrameQueue queue_;
  bool closed_ = false;
};

}  // namespace rondo::detail
