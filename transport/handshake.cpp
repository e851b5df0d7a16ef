#include "transport/handshake.hpp"

#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include "transport/keyed_hash.hpp"

namespace rondo::detail {
namespace {

constexpr std::array<char, 4> kMagic{'R', 'N', 'D', 'O'};
constexpr std::size_t kPrefixBytes = 6;  // magic and version: the same in every version to come

/// The start of a hello and of a challenge, little-endian:
///
///   0 magic  4 version (u16)  6 role  7 has a key  8 verdict, 0 if none  9 zero
///   12 attempt (u32)  16 size (i32)  20 rank (i32)  24 peer (i32)  28 job id, padded with zeros  88 nonce
///
/// A challenge goes on with 32 bytes of proof.
struct Claims {
  std::array<char, 4> magic = kMagic;
  std::uint16_t version = Handshake::kVersion;
  std::uint8_t role = 0;
  std::uint8_t has_key = 0;
  std::uint8_t verdict = 0;
  std::array<std::uint8_t, 3> zero{};
  std::uint32_t attempt = 0;
  std::int32_t size = 0;
  std::int32_t rank = 0;
  std::int32_t peer = 0;
  std::array<char, 60> job_id{};
  std::array<std::uint8_t, 32> nonce{};
};
static_assert(sizeof(Claims) == Handshake::kHelloBytes && std::is_trivially_copyable_v<Claims>);
static_assert(sizeof(Claims) + 32 == Handshake::kChallengeBytes);
static_assert(std::endian::native == std::endian::little);

/// 0 magic  4 verdict, 0 if none  5 zero  8 proof
struct Proof {
  std::array<char, 4> magic = kMagic;
  std::uint8_t verdict = 0;
  std::array<std::uint8_t, 3> zero{};
  std::array<std::uint8_t, 32> proof{};
};
static_assert(sizeof(Proof) == Handshake::kProofBytes);

/// 0 magic  4 verdict  5 zero
struct Answer {
  std::array<char, 4> magic = kMagic;
  std::uint8_t verdict = 0;
  std::array<std::uint8_t, 3> zero{};
};
static_assert(sizeof(Answer) == Handshake::kAnswerBytes);

/// What fits the wire: ids that are too long keep their beginning and are told apart by a hash.
std::array<char, 60> wire_id(const std::string& id) {
  std::array<char, 60> wire{};
  std::string text = id;
  if (id.size() > wire.size()) {
    const Hash whole = hash(std::as_bytes(std::span(id)));
    text.resize(27);
    text += '~';
    for (std::size_t i = 0; i < 16; ++i) text += fmt::format("{:02x}", whole[i]);
  }
  std::copy(text.begin(), text.end(), wire.begin());
  return wire;
}

std::string unwire_id(const std::array<char, 60>& wire) {
  return {wire.begin(), std::find(wire.begin(), wire.end(), '\0')};
}

template <typename T>
void append(std::vector<std::byte>& to, const T& wire) {
  const auto bytes = std::as_bytes(std::span(&wire, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <typename T>
T wire_struct(std::span<const std::byte> bytes) {
  T wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  return wire;
}

void randomize(std::array<std::uint8_t, 32>& bytes) {
  if (::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) return;
  throw std::runtime_error("the system gives no random bytes for a job key or a handshake");
}

/// Why the other side refuses; anything that is no reason counts as garbage.
Verdict told_refusal(std::uint8_t wire) {
  const auto verdict = static_cast<Verdict>(wire);
  return verdict > Verdict::accepted && verdict < Verdict::garbage ? verdict : Verdict::garbage;
}

}  // namespace

JobKey::~JobKey() { ::explicit_bzero(bytes.data(), bytes.size()); }

JobKey JobKey::random() {
  JobKey key;
  randomize(key.bytes);
  key.present = true;
  return key;
}

Handshake::Handshake(HandshakeTerms terms, const JobKey& key, bool initiator)
    : mine_(std::move(terms)), key_(key), initiator_(initiator), awaiting_(initiator ? Turn::challenge : Turn::hello) {
  peer_.rank = mine_.peer;
  input_.reserve(kChallengeBytes);
}

Handshake Handshake::initiate(HandshakeTerms terms, const JobKey& key) {
  Handshake handshake(std::move(terms), key, true);
  handshake.write_claims(Verdict::pending);
  return handshake;
}

Handshake Handshake::accept(HandshakeTerms terms, const JobKey& key) { return Handshake(std::move(terms), key, false); }

std::size_t Handshake::wanted() const noexcept {
  switch (awaiting_) {
    case Turn::hello: return kHelloBytes - input_.size();
    case Turn::challenge: return kChallengeBytes - input_.size();
    case Turn::proof: return kProofBytes - input_.size();
    case Turn::answer: return kAnswerBytes - input_.size();
    case Turn::none: break;
  }
  return 0;
}

void Handshake::feed(std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min(bytes.size(), wanted()));
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  if (done() || input_.empty()) return;

  // The first bytes already tell strangers and other versions, whatever the length of their messages.
  const std::size_t known = std::min(input_.size(), kMagic.size());
  if (std::memcmp(input_.data(), kMagic.data(), known) != 0) return end(Verdict::garbage);
  const bool claims = awaiting_ == Turn::hello || awaiting_ == Turn::challenge;
  if (claims && input_.size() >= kPrefixBytes) {
    std::memcpy(&peer_version_, input_.data() + kMagic.size(), sizeof peer_version_);
    if (peer_version_ != kVersion) return refuse(Verdict::other_version);
  }
  if (wanted() == 0) understand();
}

void Handshake::understand() {
  switch (awaiting_) {
    case Turn::hello:
    case Turn::challenge: understand_claims(); break;
    case Turn::proof: understand_proof(); break;
    case Turn::answer: understand_answer(); break;
    case Turn::none: break;
  }
  if (!done()) input_.clear();
}

void Handshake::understand_claims() {
  const auto claims = wire_struct<Claims>(input_);
  peer_ = HandshakeTerms{static_cast<ConnectionRole>(claims.role),
                         unwire_id(claims.job_id),
                         claims.attempt,
                         claims.size,
                         claims.rank,
                         claims.peer};
  peer_has_key_ = claims.has_key != 0;
  if (claims.verdict != 0) {
    told_by_peer_ = true;
    return end(told_refusal(claims.verdict));
  }
  const Verdict difference = compare_claims();
  if (difference != Verdict::pending) return refuse(difference);

  const auto spoken = std::span<const std::byte>(input_).first(sizeof claims);
  transcript_.insert(transcript_.end(), spoken.begin(), spoken.end());
  if (!initiator_) {
    awaiting_ = Turn::proof;
    return write_claims(Verdict::pending);
  }
  Hash proof{};
  std::memcpy(proof.data(), input_.data() + sizeof claims, proof.size());
  if (!same(proof, proof_of("rondo handshake: acceptor"))) return refuse(Verdict::wrong_key);
  authenticated_ = true;
  awaiting_ = Turn::answer;
  write_proof(Verdict::pending);
}

/// What needs no proof. The acceptor judges size and ranks once it knows that they are not a stranger's.
Verdict Handshake::compare_claims() const {
  if (peer_.role != mine_.role) return Verdict::other_role;
  if (wire_id(peer_.job_id) != wire_id(mine_.job_id)) return Verdict::other_job;
  if (peer_.attempt != mine_.attempt) return Verdict::other_attempt;
  if (initiator_ && (peer_.rank != mine_.peer || peer_.peer != mine_.rank)) return Verdict::wrong_rank;
  return Verdict::pending;
}

void Handshake::understand_proof() {
  const auto proof = wire_struct<Proof>(input_);
  if (proof.verdict != 0) {
    told_by_peer_ = true;
    return end(told_refusal(proof.verdict));
  }
  if (!same(proof.proof, proof_of("rondo handshake: initiator"))) return refuse(Verdict::wrong_key);
  authenticated_ = true;
  if (closing_) return refuse(Verdict::closing);
  if (peer_.size != mine_.size) return refuse(Verdict::other_size);
  const bool in_world = peer_.rank >= 0 && peer_.rank < mine_.size && peer_.rank != mine_.rank;
  const bool expected = mine_.peer == kAnyRank || mine_.peer == peer_.rank;
  if (!in_world || !expected || peer_.peer != mine_.rank) return refuse(Verdict::wrong_rank);
  awaiting_ = Turn::none;
  deciding_ = true;
}

void Handshake::understand_answer() {
  const auto answer = wire_struct<Answer>(input_);
  told_by_peer_ = true;
  // Only here, after the proof that this side wanted, and in `answer` anybody is accepted.
  const bool accepted = answer.verdict == static_cast<std::uint8_t>(Verdict::accepted);
  end(accepted ? Verdict::accepted : told_refusal(answer.verdict));
}

void Handshake::answer(Verdict verdict) {
  if (!deciding_) throw std::logic_error("handshake: an answer before the other side is known");
  append(output_, Answer{.verdict = static_cast<std::uint8_t>(verdict)});
  end(verdict);
}

void Handshake::write_claims(Verdict verdict) {
  Claims claims;
  claims.role = static_cast<std::uint8_t>(mine_.role);
  claims.has_key = key_.present ? 1 : 0;
  claims.verdict = static_cast<std::uint8_t>(verdict);
  claims.attempt = mine_.attempt;
  claims.size = mine_.size;
  claims.rank = mine_.rank;
  claims.peer = initiator_ ? mine_.peer : peer_.rank;
  claims.job_id = wire_id(mine_.job_id);
  randomize(claims.nonce);
  append(output_, claims);
  append(transcript_, claims);
  if (initiator_) return;
  Hash proof{};
  if (verdict == Verdict::pending) proof = proof_of("rondo handshake: acceptor");
  append(output_, proof);
}

void Handshake::write_proof(Verdict verdict) {
  Proof proof{.verdict = static_cast<std::uint8_t>(verdict)};
  if (verdict == Verdict::pending) proof.proof = proof_of("rondo handshake: initiator");
  append(output_, proof);
}

/// Says why, in the message that the other side waits for, and ends.
void Handshake::refuse(Verdict verdict) {
  switch (awaiting_) {
    case Turn::hello: write_claims(verdict); break;
    case Turn::challenge: write_proof(verdict); break;
    case Turn::proof: append(output_, Answer{.verdict = static_cast<std::uint8_t>(verdict)}); break;
    case Turn::answer:
    case Turn::none: break;
  }
  end(verdict);
}

void Handshake::end(Verdict verdict) noexcept {
  verdict_ = verdict;
  deciding_ = false;
  awaiting_ = Turn::none;
}

Hash Handshake::proof_of(std::string_view direction) const {
  if (!key_.present) return {};
  const auto begin = std::as_bytes(std::span(direction));
  std::vector<std::byte> spoken(begin.begin(), begin.end());
  spoken.insert(spoken.end(), transcript_.begin(), transcript_.end());
  return keyed_hash(std::as_bytes(std::span(key_.bytes)), spoken);
}

std::span<const std::byte> Handshake::output() const noexcept { return output_; }

void Handshake::sent(std::size_t bytes) noexcept {
  output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(std::min(bytes, output_.size())));
}

}  // namespace rondo::detail
