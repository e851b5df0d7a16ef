#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "runtime/device_peers.hpp"

namespace rondo::detail {

class ReceiveMessage;
class Message;
class SendMessage;

/// What a driver's failure is to a message.
std::exception_ptr error_of(const std::exception_ptr& failure, const Message& message);

/// Messages that begin or end in the memory of a device. The receiver maps the sender's memory and copies from it where
/// both are processes of one host whose device reaches the other's (over PCIe the sender maps the receiver's, and
/// copies there); anything else goes through the host: the sender copies to it when the receiver is ready, the receiver
/// from it when all is there, or the next piece of a long one (`DevicePieces`). So either side may be a device.
///
/// One for an engine, under its lock, about its `RankDevice`.
class DeviceMessages {
 public:
  explicit DeviceMessages(Engine& engine) : engine_(engine) {}
  DeviceMessages(const DeviceMessages&) = delete;
  DeviceMessages& operator=(const DeviceMessages&) = delete;

  // Sends.
  /// Says in the rts where the payload lies, where that rank of the world may be able to map it.
  void offer(SendMessage& message, int to);
  /// It has, and there was no answer yet.
  bool is_offered(int peer, std::uint32_t id) const { return offers_.contains({peer, id}); }
  /// The receiver of an rts has said where the payload may be written.
  void may_write(Peer& peer, const DeviceWrite& where);
  /// What it said, of that rts.
  std::optional<DeviceWrite> where_to_write(int peer, std::uint32_t id) const;
  /// The peer has answered that rts, in whatever way, or done what that cts asked for: no more is known of it.
  void over(int peer, std::uint32_t id);
  /// Its receiver is ready: writes the payload there, or else brings it to the host.
  void begin(SendMessage& message, Peer& peer, const std::optional<DeviceWrite>& where);
  /// The receiver has given it up.
  void write_no_more(int peer, const DeviceWriteNoMore& unwanted);
  /// Copies the payload to the host, and sends it from there.
  void bring_to_host(SendMessage& message);

  // Receives.
  /// Copies out of the sender's memory, or lets the sender write. False: the payload is to come by the link.
  bool copy_offered(ReceiveMessage& message, Peer& peer, const FrameHeader& rts);
  /// A long payload may come, in pieces, once the stream has come to the call; or be written, which a device that is to
  /// wait for it can wait for.
  void clear_when_due(ReceiveMessage& message, Peer& peer, const FrameHeader& rts,
                      const std::shared_ptr<DeviceWrite>& write = nullptr);
  /// Copies the bytes that came last, which are in the staging memory, to the device.
  void store(ReceiveMessage& message, std::size_t bytes);
  /// The same of bytes that lie elsewhere, until `free` is called, whatever became of the message.
  void store(ReceiveMessage& message, std::shared_ptr<const std::byte> from, std::size_t bytes,
             std::function<void()> free);

  // Copies of the other side, for which a stream here is to wait.
  /// What is queued on the stream from here on comes after the copy by which that rank ends a message, of which this
  /// one has told it by this number. False: it has been asked whether the copy is queued. Throws Error.
  bool order(int peer, std::uint32_t number, CudaStream stream);
  void queued(Peer& peer, const DeviceQueued& copy);
  // Copies of this rank, for which the other side's may.
  /// A thread that waits asks of one message at a time; what it gave up stays asked for until that is over.
  static constexpr std::size_t kMostAsks = 4096;
  void ask(Peer& peer, const DeviceAsk& ask);
  void ask_no_more(int peer, const DeviceAskNoMore& ask) { asked_.erase({peer, ask.message}); }
  /// Answers what has been asked; while the device is opened. Never blocks, never throws.
  void poll();

  void gone(int peer);

 private:
  /// A message: the other rank, and that one's or this one's number of it.
  using Key = std::pair<int, std::uint32_t>;
  struct Offer {
    cuda::EventTicket ready;
    std::optional<DeviceWrite> where;
  };
  /// There is one.
  RankDevice::Opened& device() const;
  DeviceOffer offer_of(const DeviceBuffer& buffer, int to);
  bool write(SendMessage& message, Peer& peer, const DeviceWrite& where);
  bool let_write(ReceiveMessage& message, Peer& peer, const FrameHeader& rts);
  /// An event of that rank of the world's is done, or there is none. False also where it leaves: nobody knows what a
  /// device does that waits for a process which has died. `rank` is that in the group, for errors.
  bool is_done(int world_rank, cuda::EventTicket ticket, int rank) const;
  /// The copy comes after such an event, and after what the buffer's own stream had been given: asked by the host until
  /// the copy is hastened.
  void start_after(const std::shared_ptr<DeviceBuffer>& buffer, int world_rank, cuda::EventTicket ticket,
                   cuda::Copies::Copy copy, RankDevice::Ended ended);
  /// The copy itself may be over: who was asked has no more to say.
  void ended(int peer, std::uint32_t number);
  /// Hastens the copy. False: nothing can be said yet.
  bool answer(const Key& ask) noexcept;
  /// Whose are the events that a rank waits for to know of this one's copies.
  static std::uint64_t owner_of(int peer) noexcept { return ~static_cast<std::uint64_t>(peer); }

  Engine& engine_;
  std::map<Key, Offer> offers_;                           ///< of this rank, by its rts, or its cts
  std::map<Key, std::optional<cuda::EventTicket>> asks_;  ///< of this rank, by its own number
  std::set<Key> asked_;                                   ///< of others, by theirs
  std::map<Key, std::shared_ptr<DeviceBuffer>> copying_;  ///< what they may ask about
};

}  // namespace rondo::detail
