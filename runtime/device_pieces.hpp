#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>

namespace rondo::detail {

class Engine;
class Peer;
class PieceSlots;
class SendMessage;

/// Long payloads that go through the host, from the memory of a device or to it, leave here in pieces: while one is
/// copied to the host, another crosses, and a third is copied to the receiver's device. So many are on their way to a
/// peer at a time, from here to the end of their copy there, and no more memory of the host is needed on either side,
/// but for what a device that hangs still holds of messages that were given up.
///
/// Between ranks that share memory there is a slot for each in memory of both, which the sender makes for the first
/// message: so a payload is written to the host's memory once. To others pieces go by the link.
///
/// Messages to one peer go one after the other; none waits in there for its stream, so none keeps another back.
///
/// One for an engine, under its lock.
class DevicePieces {
 public:
  static constexpr std::size_t kBytes = std::size_t{512} << 10;
  static constexpr std::size_t kAhead = 4;

  explicit DevicePieces(Engine& engine) : engine_(engine) {}
  ~DevicePieces();
  DevicePieces(const DevicePieces&) = delete;
  DevicePieces& operator=(const DevicePieces&) = delete;

  /// The receiver is ready, and so is the stream of the sender's device.
  void send(SendMessage& message, Peer& peer);
  /// What the other side says with a frame of that kind. False: it cannot be.
  bool taken(Peer& peer, std::uint32_t number);
  bool hear_of_slots(Peer& peer, std::uint32_t number);
  /// Of those that the other side sends in; nullptr: there is none. Pinned where this rank has a device.
  std::shared_ptr<const std::byte> slot_of(const Peer& peer, std::uint32_t number);
  void take_back(const SendMessage& message, Peer& peer);
  /// Of a message that was given to `send`: its last piece is being copied to the host, too, or has been.
  bool all_begun(const SendMessage& message, const Peer& peer) const;

 private:
  struct Piece;
  struct Begun {
    SendMessage* message;
    std::size_t bytes = 0;  ///< of it in pieces that are on their way, or there
  };
  enum class Medium : std::uint8_t { unknown, slots_offered, slots, link };
  /// To one peer.
  struct Way {
    Medium medium = Medium::unknown;
    std::shared_ptr<PieceSlots> slots;
    std::deque<Begun> waiting;
    std::list<std::shared_ptr<Piece>> under_way;  ///< in their order
  };

  void offer_slots(Way& way, Peer& peer);
  void go_on(Way& way, Peer& peer);
  void begin(Way& way, Peer& peer);
  static void hand_over(Way& way, Peer& peer);

  Engine& engine_;
  std::map<int, Way> ways_;                            ///< by the rank of the world
  std::map<int, std::shared_ptr<PieceSlots>> theirs_;  ///< of the other sides
};

}  // namespace rondo::detail
