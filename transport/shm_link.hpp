#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "transport/descriptor.hpp"
#include "transport/detached_frames.hpp"
#include "transport/joint_copy.hpp"
#include "transport/line_ring.hpp"
#include "transport/link.hpp"
#include "transport/order_memory.hpp"
#include "transport/shared_memory.hpp"
#include "transport/shared_stores.hpp"

namespace rondo::detail {

/// A Link over two rings in memory that both processes map. Short payloads are delivered out of the ring, long ones
/// follow in pieces, so that both sides copy at the same time; or the receiver fetches them itself, where the kernel
/// lets it read the other process. A Unix socket stays beside it: its end tells that the other process is gone (a ring
/// has no end), a byte on it wakes one that sleeps.
class ShmLink final : public Link {
 public:
  static constexpr std::size_t kLines = 4096;  // of 64 bytes, in each direction
  /// See `pull_from`.
  static constexpr std::size_t kPullFrom = 16 << 10;

  /// What a pair needs for both directions.
  static constexpr std::size_t memory_bytes(std::size_t lines = kLines) {
    return 2 * (LineRing::bytes(lines) + sizeof(JointCopy::Shared));
  }

  /// The two sides of one `memory` of `memory_bytes(lines)`, one of which made it. `readable_pid`: the other process,
  /// when `pull` may be tried; else 0, and `unreadable` says why.
  ShmLink(Descriptor socket, SharedMemory memory, bool made_here, pid_t readable_pid, std::size_t lines = kLines,
          std::string unreadable = {});

  void send(Outgoing& frame) override;
  bool send_now(EagerHeader header, std::span<const std::byte> payload) override;
  std::optional<Arrived> arrived(int looks) override;
  void take_arrived() override;
  void release(Outgoing& frame) override;
  void discard() override { place_ = nullptr; }
  std::size_t poll(Sink& sink) override;
  bool flushed() const override { return queue_.empty() || ended_; }
  void shut_down() noexcept override;
  bool drained() const override { return true; }
  int descriptor() const override { return socket_.get(); }
  bool wants_write() const override { return false; }
  bool rest(bool resting) noexcept override;
  void ring() noexcept override;
  std::size_t check(Sink& sink) override;
  bool pass(int descriptor, std::uint64_t number) override;
  std::size_t pull_from() const noexcept override { return readable_pid_ != 0 ? kPullFrom : 0; }
  bool pull_ruled_out() const noexcept override { return !unreadable_.empty(); }
  std::optional<std::uint64_t> pull_ticket() const noexcept override {
    return out_.control().voided.load(std::memory_order_relaxed);
  }
  void void_tickets() noexcept override {
    out_.control().voided.fetch_add(1, std::memory_order_acq_rel);
    order_memory(std::memory_order_release);
  }
  bool good(std::uint64_t ticket) const noexcept override;
  Pulled pull(std::uint64_t address, std::span<std::byte> into, bool jointly) override;
  Pulled pulled() override;
  void give_up_pull() noexcept override;
  std::string_view transport() const override { return "shm"; }
  std::string long_messages() const override;

 private:
  std::size_t flush();
  template <typename PutHeader>
  bool put(LineRing::Kind kind, std::size_t header_bytes, std::span<const std::byte> part, PutHeader put_header);
  bool write(Outgoing& frame);
  bool take(Sink& sink);
  bool begin(Sink& sink, const RingReader::Record& record);
  bool go_on(Sink& sink, std::span<const std::byte> piece);
  void ask_for_help(const JointCopy::Request& request);
  bool help(std::span<const std::byte> record);
  Pulled read_no_more(int error) noexcept;
  void wake_other() noexcept;
  bool take_notes(Sink& sink);
  void fail(std::string cause);

  Descriptor socket_;
  SharedMemory memory_;
  RingWriter out_;
  SharedStores stores_;
  RingReader in_;
  pid_t readable_pid_;
  const std::string unreadable_;  // why, if that is 0 from the beginning;
  int read_error_ = 0;            // or later
  JointCopy::Shared& reads_;      // of this side
  JointCopy::Shared& writes_;     // for the other
  std::optional<JointRead> joint_;
  std::uint64_t last_joint_ = 0;
  bool ended_ = false;  // nobody reads or writes at the other side any more
  bool reported_ = false;
  std::string cause_;

  std::vector<std::byte> notes_;  // what was said on the socket, but for the end of a note still to come
  Descriptor passed_;             // with that note
  FrameQueue queue_;
  DetachedFrames detached_;

  bool in_payload_ = false;  // current_ has been accepted and is not complete
  FrameHeader current_;
  std::byte* place_ = nullptr;  // of current_; nullptr: thrown away
  std::size_t remaining_ = 0;   // payload bytes of current_ still to come
};

}  // namespace rondo::detail
