#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rondo/device_span.hpp>
#include <rondo/element_type.hpp>
#include <rondo/error.hpp>
#include <rondo/status.hpp>

#include "runtime/blocked.hpp"
#include "runtime/list.hpp"
#include "transport/link.hpp"

namespace rondo::detail {

class Group;
class Operation;
class Peer;
struct DeviceBuffer;
struct Unexpected;

struct InGroup;
struct InMatcher;

/// One message of a communicator, from its start to its completion. It starts in its constructor, lives where it was
/// made (a coroutine's frame, a caller's stack, a pool) and is neither copied nor moved. Destroying it before it has
/// completed takes it back. To be awaited by one coroutine, or polled with `done`. All under the engine's lock.
class Message : public ListNode<Message, InGroup> {
 public:
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  bool done() const noexcept { return done_; }
  std::exception_ptr error() const noexcept { return error_; }

  bool await_ready() const noexcept { return done_; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }
  void await_resume() {
    waiter_ = {};
    if (error_) std::rethrow_exception(error_);
  }

  /// Takes the message back from the peer and completes it with an error.
  void fail(std::exception_ptr error);
  /// Its error: which message, and what of it.
  std::exception_ptr error_of(Errc code, const std::string& what) const;
  virtual Error::Facts facts() const;

  Group& group() const noexcept { return group_; }
  /// The collective that it belongs to; nullptr: point to point.
  Operation* operation() const noexcept { return operation_; }
  int peer_rank() const noexcept { return peer_rank_; }
  /// It cannot complete before this member has done something.
  virtual bool awaits(int member) const noexcept { return peer_rank_ == member; }
  /// "from rank 3 with tag 7"
  virtual std::string describe() const = 0;
  /// What it still waits for, in words.
  virtual std::string missing() const = 0;
  /// Who has to do something before it is under way; nobody: it is.
  BlockedOn blocked_on() const;
  /// What its caller may do about that; empty, or begins with "; ".
  virtual std::string advice() const { return {}; }

 protected:
  /// `called`: what the caller called, for a message of no collective.
  Message(Group& group, Operation* operation, int peer_rank, const char* called = "");
  virtual ~Message();

  void complete(std::exception_ptr error = nullptr);
  /// The link of `peer` is worth polling until this message has completed.
  void expect_from(Peer& peer);
  virtual void withdraw() noexcept = 0;
  /// Members without whose call nothing moves.
  virtual std::vector<int> unmatched() const { return {}; }

  Group& group_;
  Operation* const operation_;  // nullptr: point to point
  const int peer_rank_;         // in the group; any_source
  const char* const called_;

 private:
  Peer* expected_from_ = nullptr;
  bool done_ = false;
  std::exception_ptr error_;
  std::coroutine_handle<> waiter_;  // until it goes on
};

/// The error of a point-to-point message whose deadline has passed.
std::exception_ptr timed_out(const Message& message);

/// What every frame of a point-to-point message says.
FrameHeader header_of(const Group& group, Tag tag, ElementType type, std::size_t bytes) noexcept;

/// A message to another member. Complete when its payload is no longer needed here.
class SendMessage final : public Message, public Outgoing {
 public:
  /// The payload of a message that has a `device` lies there: its address is not the host's.
  SendMessage(Group& group, int to, Tag tag, ElementType type, std::span<const std::byte> payload,
              std::shared_ptr<DeviceBuffer> device = nullptr, const char* called = "send");
  SendMessage(Operation& operation, int to, std::uint32_t lane, std::span<const std::byte> payload);
  ~SendMessage() override;

  std::string describe() const override;
  std::string missing() const override;
  bool awaits_any() const noexcept { return false; }
  std::string advice() const override;
  /// What is queued on the stream from here on comes after the memory of a device has been read. False: it is not known
  /// yet when that will be. Throws Error.
  bool order(CudaStream stream);

 private:
  friend class Peer;
  friend class DeviceMessages;
  friend class DevicePieces;
  /// unsent -> in_link (eager) -> complete, or -> in_link (rts) -> awaits_cts -> in_link (data) -> complete. Of the
  /// memory of a device: unsent -> copying, unasked, or awaits_cts -> copying; that copy is to the host's memory
  /// (-> in_link as late or data), or straight to the receiver's device (-> complete); or awaits_cts -> in_pieces. What
  /// the receiver copies itself is complete when it says so.
  enum class State : std::uint8_t {
    unsent,
    in_link,     ///< or queued for one that is not there yet
    awaits_cts,  ///< or another answer to an rts
    copying,     ///< a device does it
    in_pieces    ///< DevicePieces has it
  };

  static void sent(Outgoing& frame) noexcept;
  void withdraw() noexcept override;
  std::vector<int> unmatched() const override;
  void clear_to_send(std::uint32_t receiver_id);
  void refused();

  Peer* peer_ = nullptr;
  std::span<const std::byte> whole_;
  std::shared_ptr<DeviceBuffer> device_;
  State state_ = State::unsent;
};

/// What a receive does with a payload that it combines into memory instead of storing it.
struct Fold {
  std::span<std::byte> into;
  void (*combine)(void* context, std::byte* into, const std::byte* from, std::size_t bytes) = nullptr;
  void* context = nullptr;
};

/// A message from another member, or from any. Complete when its payload is where it belongs.
class ReceiveMessage final : public Message, public ListNode<ReceiveMessage, InMatcher> {
 public:
  ReceiveMessage(Group& group, int from, Tag tag, ElementType type, std::span<std::byte> buffer,
                 std::shared_ptr<DeviceBuffer> device = nullptr, const char* called = "recv");
  ReceiveMessage(Operation& operation, int from, std::uint32_t lane, std::span<std::byte> buffer);
  ReceiveMessage(Operation& operation, int from, std::uint32_t lane, const Fold& fold);
  ~ReceiveMessage() override;

  const Status& status() const noexcept { return status_; }
  /// What is queued on the stream from here on comes after the payload is there. False: that is not known yet. Throws
  /// Error.
  bool order(CudaStream stream);
  bool awaits(int member) const noexcept override;
  Error::Facts facts() const override;
  std::string describe() const override;
  std::string missing() const override;
  /// Whoever sends first.
  bool awaits_any() const noexcept { return peer_rank_ == any_source && state_ == State::posted; }

  bool matches(int source, std::uint64_t key) const noexcept {
    return (peer_rank_ == source || peer_rank_ == any_source) && ((key ^ key_) & key_mask_) == 0;
  }

 private:
  friend class Peer;
  friend class Group;
  friend class DeviceMessages;
  /// posted -> landing -> complete, where all comes unasked; posted -> claims_unexpected -> complete, where that began
  /// before; after an rts posted -> awaits_data -> landing, or posted -> reading or copying, and back to awaits_data
  /// where that fails. For the memory of a device what has landed is storing, or awaits_data where more pieces come.
  enum class State : std::uint8_t {
    posted,
    claims_unexpected,  ///< which is still arriving
    awaits_data,
    landing,  ///< the link writes into the place that it was given
    reading,  ///< out of the sender's memory, through the link
    copying,  ///< out of the sender's device, or the stream has not come to the call yet
    storing   ///< all of it is here and on its way to the device
  };

  void post();
  void withdraw() noexcept override;
  std::vector<int> unmatched() const override;
  /// The matched message does not fit: completes with the reason. False: it fits.
  bool refuse(const FrameHeader& header, int source);
  std::size_t missing_bytes() const noexcept { return status_.bytes - arrived_; }
  /// Where so many bytes of the payload, the next to come, shall go. nullptr: it has failed, for want of memory to
  /// combine them from.
  std::byte* place(std::size_t bytes);
  /// They lie there.
  void landed(std::size_t bytes);
  /// They lie elsewhere and are copied or combined from there.
  void take(std::span<const std::byte> payload);

  std::span<std::byte> buffer_;
  std::shared_ptr<DeviceBuffer> device_;
  Fold fold_;
  ElementType type_ = ElementType::bytes;
  std::uint64_t key_ = 0;
  std::uint64_t key_mask_ = ~std::uint64_t{0};
  State state_ = State::posted;
  Peer* source_ = nullptr;            // who sends it, once matched
  Unexpected* unexpected_ = nullptr;  // what it claims while that is still arriving
  std::byte* scratch_ = nullptr;      // for a fold whose payload comes bit by bit
  std::size_t arrived_ = 0;           // of the payload, as far as nothing more is needed of the sender
  std::size_t copying_ = 0;           // pieces of it on their way to the device
  bool may_be_written_ = false;       // by the sender, to the device
  Status status_;
};

}  // namespace rondo::detail
