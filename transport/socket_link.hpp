#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transport/descriptor.hpp"
#include "transport/detached_frames.hpp"
#include "transport/link.hpp"

namespace rondo::detail {

/// A Link over a connected stream socket, TCP or Unix-domain: one call for header and payload, tried at once and
/// queued only when the socket is full; about one to receive a message, payload straight to its place with the next
/// header riding along. Over TCP within a host, a long run of short frames that nothing answers goes many to a packet.
class SocketLink final : public Link {
 public:
  /// Makes `socket` non-blocking; a TCP socket gets TCP_NODELAY. `spill_bytes` is what one read may take beyond the
  /// payload that it is for (headers and small payloads; at least one header). `patience`: see `kPatience`.
  explicit SocketLink(Descriptor socket, std::size_t spill_bytes = kSpillBytes, int patience = 1);
  ~SocketLink() override;

  void send(Outgoing& frame) override;
  void release(Outgoing& frame) override;
  void discard() override { place_ = nullptr; }
  std::size_t poll(Sink& sink) override;
  bool polls_system() const noexcept override { return true; }
  bool flushed() const override { return queue_.empty() || broken_; }
  void shut_down() noexcept override;
  bool drained() const override;
  int descriptor() const override { return socket_.get(); }
  bool wants_write() const override { return !queue_.empty() && !broken_; }
  void await_payload(bool awaited) noexcept override { awaits_payload_ = awaited; }
  void settle() noexcept override;
  bool rest(bool resting) noexcept override;
  std::string_view transport() const override { return tcp_ ? "tcp" : "unix"; }

  static constexpr std::size_t kSpillBytes = 8192;

  /// Buffers of a connection that stays on this host: small enough to stay in a core's cache. Copying 16 MiB through
  /// less than those that the kernel grows takes half as long where cores share a cache; where they do not, less than
  /// this costs a tenth.
  static constexpr int kLocalBufferBytes = 1 << 20;
  /// And its congestion control, whatever the system's: within a host nothing is lost and no line is shared. What
  /// spreads packets over time (bbr) takes a quarter longer for 16 MiB. Every Linux has this one, open to all.
  static constexpr std::string_view kLocalCongestionControl = "reno";
  /// While payloads go both ways so much is written and then read what has come, in turn: what else would wait in
  /// the system's buffers has left the nearest caches by the time that it is read. All_to_all of 8 MiB and more between
  /// two takes 0.68 to 0.8 of the time over TCP, with more at a time or less up to all of it.
  static constexpr std::size_t kTurn = (std::size_t{512} << 10) + sizeof(FrameHeader);
  /// Frames that follow each other with nothing coming back: from so many on, while they are no longer than that, the
  /// system keeps each back until what went before is acknowledged, and what has gathered goes in one packet (Nagle's
  /// algorithm). Within a host a packet costs its sender some 3 us; joining others costs a short frame less than one.
  static constexpr int kLongRun = 8;
  static constexpr std::size_t kShortFrame = std::size_t{16} << 10;
  /// So the other side acknowledges only when it has looked so often for more and nothing came, or is about to sleep.
  /// Where ranks have a core each: at the first such look a stream of short messages took 1.2 to 1.9 times as long, for
  /// each of them then had a packet, and that an acknowledgement. Ranks that do not spin, as they share cores, look
  /// once: what is kept back costs them turns.
  static constexpr int kPatience = 8;

 private:
  bool takes_turns() const noexcept { return on_host_ && (awaits_payload_ || in_payload_); }
  bool ends_turn(const Outgoing& next) const noexcept;
  std::size_t flush();
  std::size_t write_queue();
  bool read(Sink& sink, std::size_t& moved);
  std::size_t parse(Sink& sink);
  void begin(Sink& sink, const FrameHeader& header);
  void begin_long(Sink& sink);
  void gather_frames(bool gathering);
  void acknowledge_at_once(bool at_once) noexcept;
  void fail(int error);

  Descriptor socket_;
  bool tcp_ = false;
  bool on_host_ = false;
  bool broken_ = false;  // nothing can be written any more
  bool dead_ = false;    // and everything has been read
  bool reported_ = false;
  std::string cause_;

  bool gathers_ = false;               // TCP that stays on this host: frames of long runs go many to a packet
  int run_ = 0;                        // short frames sent since something came
  bool gathering_ = false;             // the system keeps them back until what went before is acknowledged
  bool last_was_short_ = false;        // of the frames that came
  bool owes_acknowledgement_ = false;  // nothing was sent since: the other's system may be keeping frames back
  int looked_in_vain_ = 0;             // since
  const int patience_;

  bool awaits_payload_ = false;

  FrameQueue queue_;
  DetachedFrames detached_;

  std::vector<std::byte> spill_;
  std::size_t spill_begin_ = 0;
  std::size_t spill_end_ = 0;

  bool in_payload_ = false;  // current_ has been accepted and is not complete
  bool held_ = false;        // current_ has not been accepted yet
  FrameHeader current_;
  std::byte* place_ = nullptr;  // of current_; nullptr: thrown away
  std::size_t remaining_ = 0;   // payload bytes of current_ still to come
};

}  // namespace rondo::detail
