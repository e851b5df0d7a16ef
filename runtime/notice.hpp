#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <rondo/call.hpp>
#include <rondo/error.hpp>

#include "transport/handshake.hpp"

namespace rondo::detail {

/// The id of the communicator of all ranks. Those made from it have ids that all their members compute alike.
inline constexpr std::uint64_t kWorldId = 1;

/// What ranks and the hub tell each other about the job. Which fields count depends on the kind.
struct Notice {
  /// A rank that somebody waits for: what the communicator calls it, and the world.
  struct Awaited {
    std::int32_t member = 0;
    std::int32_t rank = 0;
    friend bool operator==(const Awaited&, const Awaited&) = default;
  };

  enum class Kind : std::uint8_t {
    // rank -> hub
    failed = 1,  ///< this communicator failed on me: communicator, number, call's kind, code, text, awaited
    stalled,     ///< I make no progress: communicator, number, call, before, awaited; again where more was to be said.
                 ///< The hub passes it on to those awaited who do not wait there themselves, rank: who said it
    resumed,     ///< what I said was stalled is over: communicator
    waits,       ///< a thread of mine waits in a call, which goes by this number: text (that call; empty: it is over),
                 ///< awaited (of the world; none: it is under way)
    goodbye,     ///< I leave in order
    // hub -> rank
    absent,    ///< to `stalled` said again: communicator, number, text (who has not come to that call; may be empty)
    poisoned,  ///< this communicator failed: communicator, number, call's kind, code, text, rank (who said so first)
    circle,    ///< to `waits` said again, if those wait for you, too: number, text (in which calls)
    dead,      ///< rank ended without goodbye: text says how
    left,      ///< rank said goodbye
    // both ways
    abort,  ///< the whole job must end: code, text, rank (who wants it, -1: the launcher)
  };

  Kind kind = Kind::goodbye;
  int rank = -1;
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;
  Errc code = Errc::peer_failed;
  Call call;
  std::string text;
  std::vector<Awaited> awaited;
  std::vector<Call> before;  ///< the calls before that, the latest first

  friend bool operator==(const Notice&, const Notice&) = default;
};

std::string_view to_string(Notice::Kind kind) noexcept;

/// The hub's first words on an adopted connection: its version (on the wire only), who you are.
struct Welcome {
  JobKey key;
  std::string job_id;
  std::uint32_t attempt = 0;
  int rank = 0;
  int size = 0;
};

/// A rank's packed addresses, for the others.
struct Join {
  std::string addresses;
  std::uint64_t patience_ms = 0;  ///< how long this rank waits for all others to join; 0: as long as the hub
};

/// The addresses of all ranks, by rank.
struct Table {
  std::vector<std::string> addresses;
};

using ControlMessage = std::variant<Notice, Welcome, Join, Table>;

/// Wire: u32 length of the body, u8 kind, fields; integers little-endian; texts and lists with a u32 length
/// before.
std::string encode(const ControlMessage& message);

/// Takes a stream apart into messages. Keeps no more than one incomplete message, and allocates only for
/// bytes that have come. Throws Error{protocol} for what no rondo peer sends; the connection is then of no
/// more use.
class ControlReader {
 public:
  static constexpr std::size_t kMaxAddresses = 4096;  ///< bytes of one rank's packed addresses
  static constexpr std::size_t kMaxText = 4096;       ///< bytes of a notice's text; longer ones are cut by `encode`
  static constexpr std::size_t kMaxAwaited = 256;     ///< ranks or calls in a notice; more are cut by `encode`

  /// `limit`: bytes of the longest message to take.
  explicit ControlReader(std::size_t limit = 2 * kMaxText) : limit_(limit) {}

  void feed(std::span<const std::byte> bytes);
  std::optional<ControlMessage> next();

 private:
  std::size_t limit_;
  std::string buffer_;
  std::size_t taken_ = 0;
};

}  // namespace rondo::detail
