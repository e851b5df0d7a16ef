#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::detail {

/// The secret of one job: who knows it belongs to the job. Not present: connections are not authenticated
/// (only the job, attempt, version and ranks are compared). Every copy is wiped when it goes.
struct JobKey {
  static constexpr std::size_t kBytes = 32;

  std::array<std::uint8_t, kBytes> bytes{};
  bool present = false;

  JobKey() = default;
  JobKey(const JobKey&) = default;
  JobKey& operator=(const JobKey&) = default;
  ~JobKey();

  /// Fresh, from the system's generator. Throws std::runtime_error where there is none.
  static JobKey random();
};

/// The rank that the hub goes by in handshakes.
inline constexpr int kHubRank = -1;
/// An acceptor that serves whoever has a rank.
inline constexpr int kAnyRank = -2;

/// What a connection will carry.
enum class ConnectionRole : std::uint8_t {
  hub = 1,   ///< control messages between a rank and the hub
  link = 2,  ///< frames between two ranks
};

/// What one side claims, and wants the other to agree with.
struct HandshakeTerms {
  ConnectionRole role = ConnectionRole::link;
  std::string job_id;  ///< of ids over 60 bytes the beginning and a hash are sent
  std::uint32_t attempt = 0;
  int size = 0;
  int rank = 0;         ///< mine, or kHubRank
  int peer = kAnyRank;  ///< whom I call (the initiator always knows), or kAnyRank (acceptors)
};

/// How a handshake ended, told apart so that each has its own error.
enum class Verdict : std::uint8_t {
  pending,
  accepted,
  crossed,         ///< both sides connected at the same time: keep the other connection
  duplicate_rank,  ///< another process already has this rank
  wrong_key,
  other_job,
  other_attempt,
  other_version,
  other_size,
  other_role,  ///< a hub's client called a rank's data port, or the reverse
  wrong_rank,  ///< outside the world, or not the one that was called
  closing,     ///< the job already ended or failed here, or the caller's part in it did
  garbage,     ///< no rondo at the other end
};

std::string_view to_string(Verdict verdict) noexcept;

/// Both sides prove that they know the job key and mean the same job, before any frame.
///
/// Sans-IO: the owner reads at most `wanted()` bytes from its socket and `feed`s them, and writes `output()`.
/// So the bytes that follow the handshake are never touched. At most 256 bytes are taken before the verdict;
/// deadlines belong to the owner. Four messages:
///
///     initiator                                      acceptor
///     hello      what I claim, nonce A       ->
///                                            <-      challenge  what I claim, nonce B, proof of the acceptor
///     proof      of the initiator            ->
///                                            <-      answer     accepted, crossed, duplicate rank, ...
///
/// A proof is HMAC-SHA-256 under the job key over the direction, the hello and the challenge: version, role,
/// job, attempt, size, both ranks, both nonces. A replayed hello meets another nonce, so its proof does not
/// fit. Without a key the proofs are zero. A side that disagrees says why instead of its next message; to
/// garbage it says nothing.
class Handshake {
 public:
  static constexpr std::uint16_t kVersion = 3;
  static constexpr std::size_t kHelloBytes = 120;
  static constexpr std::size_t kChallengeBytes = 152;
  static constexpr std::size_t kProofBytes = 40;
  static constexpr std::size_t kAnswerBytes = 8;
  static_assert(kHelloBytes + kProofBytes <= 256 && kChallengeBytes + kAnswerBytes <= 256);

  static Handshake initiate(HandshakeTerms terms, const JobKey& key);
  static Handshake accept(HandshakeTerms terms, const JobKey& key);

  /// How many more bytes to read now; 0 while it is our turn, and at the end.
  std::size_t wanted() const noexcept;
  /// Takes up to `wanted()` bytes. Never throws for anything the other side sends.
  void feed(std::span<const std::byte> bytes);

  /// What is to be written now; `sent(n)` takes the first n bytes away.
  std::span<const std::byte> output() const noexcept;
  void sent(std::size_t bytes) noexcept;

  /// Acceptor only: whoever knows the key hears `closing`, whatever size and rank it claims.
  void close() noexcept { closing_ = true; }
  /// Acceptor only: the other side is who it says (where there is a key); the owner now says `answer(...)`.
  bool deciding() const noexcept { return deciding_; }
  /// accepted, crossed, duplicate_rank, closing: whatever the owner knows and the handshake does not.
  void answer(Verdict verdict);

  /// pending until the verdict is known. The last `output()` may still have to be written.
  Verdict verdict() const noexcept { return verdict_; }
  bool done() const noexcept { return verdict_ != Verdict::pending; }

  /// What the other side claims; valid once its first message was understood.
  const HandshakeTerms& peer() const noexcept { return peer_; }
  /// The other side proved that it knows the key (or there is none to know).
  bool authenticated() const noexcept { return authenticated_; }

  /// One line for the verdict: who, what, got, wanted. Foreign bytes are escaped.
  std::string text() const;

  /// Whether to refuse an authenticated link connection that crosses the one we started towards the same
  /// peer: the connection that the LOWER rank started stays.
  static constexpr bool refuse_crossed(int my_rank, int peer_rank) noexcept { return my_rank < peer_rank; }

 private:
  enum class Turn : std::uint8_t { hello, challenge, proof, answer, none };

  Handshake(HandshakeTerms terms, const JobKey& key, bool initiator);
  void understand();
  void understand_claims();
  void understand_proof();
  void understand_answer();
  Verdict compare_claims() const;
  void write_claims(Verdict verdict);
  void write_proof(Verdict verdict);
  void refuse(Verdict verdict);
  void end(Verdict verdict) noexcept;
  std::array<std::uint8_t, 32> proof_of(std::string_view direction) const;

  HandshakeTerms mine_;
  HandshakeTerms peer_;
  JobKey key_;
  bool initiator_;
  bool deciding_ = false;
  bool closing_ = false;
  bool authenticated_ = false;
  bool told_by_peer_ = false;  ///< the verdict is what the other side said
  bool peer_has_key_ = false;
  std::uint16_t peer_version_ = kVersion;
  Turn awaiting_;
  Verdict verdict_ = Verdict::pending;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  std::vector<std::byte> transcript_;  ///< hello and challenge, without the proof
};

}  // namespace rondo::detail
