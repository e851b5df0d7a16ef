#include "transport/handshake.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;

namespace {

JobKey key_of(std::uint8_t fill) {
  JobKey key;
  key.bytes.fill(fill);
  key.present = true;
  return key;
}

HandshakeTerms link_terms(int rank, int peer) {
  HandshakeTerms terms;
  terms.job_id = "job-7";
  terms.attempt = 1;
  terms.size = 4;
  terms.rank = rank;
  terms.peer = peer;
  return terms;
}

HandshakeTerms hub_terms() {
  HandshakeTerms terms = link_terms(kHubRank, kAnyRank);
  terms.role = ConnectionRole::hub;
  return terms;
}

HandshakeTerms client_terms(int rank) {
  HandshakeTerms terms = link_terms(rank, kHubRank);
  terms.role = ConnectionRole::hub;
  return terms;
}

using Tamper = std::function<void(std::span<std::byte>)>;

/// Moves what `from` has to say to `to`. `tamper` may change it on the way.
bool move_output(Handshake& from, Handshake& to, const Tamper& tamper = {}) {
  if (from.output().empty()) return false;
  std::vector<std::byte> bytes(from.output().begin(), from.output().end());
  from.sent(bytes.size());
  if (tamper) tamper(bytes);
  to.feed(bytes);
  return true;
}

/// Lets both talk until neither has anything to say; the acceptor's owner says `answer` when asked.
void converse(Handshake& initiator, Handshake& acceptor, Verdict answer = Verdict::accepted) {
  for (bool moved = true; moved;) {
    moved = move_output(initiator, acceptor);
    if (acceptor.deciding()) acceptor.answer(answer);
    moved = move_output(acceptor, initiator) || moved;
  }
}

struct Outcome {
  Verdict initiator;
  Verdict acceptor;
  std::string initiator_text;
  std::string acceptor_text;
};

Outcome meet(const HandshakeTerms& caller, const JobKey& caller_key, const HandshakeTerms& called,
             const JobKey& called_key) {
  Handshake initiator = Handshake::initiate(caller, caller_key);
  Handshake acceptor = Handshake::accept(called, called_key);
  converse(initiator, acceptor);
  return {initiator.verdict(), acceptor.verdict(), initiator.text(), acceptor.text()};
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

TEST_CASE("two ranks with the job's key accept each other", "[runtime][handshake]") {
  Handshake initiator = Handshake::initiate(link_terms(2, 0), key_of(1));
  Handshake acceptor = Handshake::accept(link_terms(0, kAnyRank), key_of(1));
  converse(initiator, acceptor);
  CHECK(initiator.verdict() == Verdict::accepted);
  CHECK(acceptor.verdict() == Verdict::accepted);
  CHECK(acceptor.authenticated());
  CHECK(acceptor.peer().rank == 2);
  CHECK(initiator.peer().rank == 0);
}

TEST_CASE("without a key on either side the same fields are compared", "[runtime][handshake]") {
  const JobKey none;
  CHECK(meet(client_terms(3), none, hub_terms(), none).acceptor == Verdict::accepted);
  HandshakeTerms other = client_terms(3);
  other.job_id = "job-8";
  CHECK(meet(other, none, hub_terms(), none).acceptor == Verdict::other_job);
}

TEST_CASE("a handshake works byte by byte and takes no byte more than its own", "[runtime][handshake]") {
  Handshake initiator = Handshake::initiate(link_terms(1, 0), key_of(1));
  Handshake acceptor = Handshake::accept(link_terms(0, kAnyRank), key_of(1));
  std::size_t taken = 0;
  while (!initiator.done()) {
    for (auto [from, to] : {std::pair{&initiator, &acceptor}, std::pair{&acceptor, &initiator}}) {
      while (!from->output().empty()) {
        const std::byte one = from->output().front();
        from->sent(1);
        REQUIRE(to->wanted() > 0);
        to->feed({&one, 1});
        if (to == &acceptor) ++taken;
        if (acceptor.deciding()) {
          CHECK(acceptor.wanted() == 0);
          acceptor.answer(Verdict::accepted);
        }
      }
    }
  }
  CHECK(initiator.verdict() == Verdict::accepted);
  CHECK(initiator.wanted() == 0);
  CHECK(taken <= 256);
}

TEST_CASE("a wrong key is told apart on both sides", "[runtime][handshake]") {
  const Outcome outcome = meet(client_terms(1), key_of(1), hub_terms(), key_of(2));
  CHECK(outcome.initiator == Verdict::wrong_key);
  CHECK(outcome.acceptor == Verdict::wrong_key);
  CHECK_THAT(outcome.initiator_text, ContainsSubstring("the hub"));
  CHECK_THAT(outcome.acceptor_text, ContainsSubstring("rank 1"));
}

TEST_CASE("a key on one side only is a wrong key", "[runtime][handshake]") {
  const Outcome without = meet(client_terms(1), JobKey{}, hub_terms(), key_of(2));
  CHECK(without.initiator == Verdict::wrong_key);
  CHECK(without.acceptor == Verdict::wrong_key);
  CHECK_THAT(without.acceptor_text, ContainsSubstring("rank 1 has no job key, wanted the job's key"));
  CHECK(meet(client_terms(1), key_of(2), hub_terms(), JobKey{}).acceptor == Verdict::wrong_key);
}

TEST_CASE("every difference has its own verdict on both sides", "[runtime][handshake]") {
  struct Case {
    const char* name;
    std::function<void(HandshakeTerms&)> change;
    Verdict verdict;
    const char* text;
  };
  const auto cases = {
      Case{"job", [](auto& t) { t.job_id = "job-8"; }, Verdict::other_job, "\"job-8\", wanted \"job-7\""},
      Case{"attempt", [](auto& t) { t.attempt = 5; }, Verdict::other_attempt, "attempt 5, wanted 1"},
      Case{"size", [](auto& t) { t.size = 9; }, Verdict::other_size, "counts 9 ranks, wanted 4"},
      Case{"rank", [](auto& t) { t.rank = 4; }, Verdict::wrong_rank, "in a world of 4"},
      Case{"role", [](auto& t) { t.role = ConnectionRole::link; }, Verdict::other_role, "something else"},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    HandshakeTerms terms = client_terms(1);
    c.change(terms);
    const Outcome outcome = meet(terms, key_of(1), hub_terms(), key_of(1));
    CHECK(outcome.initiator == c.verdict);
    CHECK(outcome.acceptor == c.verdict);
    CHECK_THAT(outcome.acceptor_text, ContainsSubstring(c.text));
  }
}

TEST_CASE("a link that reaches another rank than it called is refused", "[runtime][handshake]") {
  const Outcome outcome = meet(link_terms(1, 2), key_of(1), link_terms(3, kAnyRank), key_of(1));
  CHECK(outcome.initiator == Verdict::wrong_rank);
  CHECK(outcome.acceptor == Verdict::wrong_rank);
}

TEST_CASE("another version is named whatever the rest of its message is", "[runtime][handshake]") {
  Handshake acceptor = Handshake::accept(hub_terms(), key_of(1));
  acceptor.feed(bytes_of(std::string_view("RNDO\x07\x00", 6)));
  CHECK(acceptor.verdict() == Verdict::other_version);
  CHECK_THAT(acceptor.text(), ContainsSubstring("version 7, wanted " + std::to_string(Handshake::kVersion)));
  // It answers in its own version, so that the other side can say the same.
  CHECK(acceptor.output().size() == Handshake::kChallengeBytes);
}

TEST_CASE("garbage is known from its first bytes and gets no answer", "[runtime][handshake]") {
  for (const std::string_view text : {"GET / HTTP/1.1\r\n", "SSH-2.0-x", "\x16\x03\x01", "R!"}) {
    Handshake acceptor = Handshake::accept(hub_terms(), key_of(1));
    acceptor.feed(bytes_of(text));
    CHECK(acceptor.verdict() == Verdict::garbage);
    CHECK(acceptor.output().empty());
  }
  Handshake initiator = Handshake::initiate(client_terms(1), key_of(1));
  initiator.feed(bytes_of("HTTP/1.1 400 Bad Request\r\n"));
  CHECK(initiator.verdict() == Verdict::garbage);
  CHECK_THAT(initiator.text(), ContainsSubstring("got \"HTTP/1.1 400 Bad..."));
}

TEST_CASE("a replayed handshake does not fit the fresh nonce", "[runtime][handshake]") {
  std::vector<std::byte> recorded;
  Handshake initiator = Handshake::initiate(client_terms(1), key_of(1));
  Handshake acceptor = Handshake::accept(hub_terms(), key_of(1));
  const Tamper record = [&](std::span<std::byte> bytes) {
    recorded.insert(recorded.end(), bytes.begin(), bytes.end());
  };
  for (int i = 0; i < 2; ++i) {
    move_output(initiator, acceptor, record);
    move_output(acceptor, initiator);
  }
  REQUIRE(acceptor.deciding());

  Handshake replayed = Handshake::accept(hub_terms(), key_of(1));
  std::span<const std::byte> rest(recorded);
  while (!replayed.done() && !replayed.deciding() && !rest.empty()) {
    const std::size_t taken = std::min(replayed.wanted(), rest.size());
    replayed.feed(rest.first(taken));
    rest = rest.subspan(taken);
  }
  CHECK(replayed.verdict() == Verdict::wrong_key);
  CHECK_FALSE(replayed.authenticated());
}

TEST_CASE("nobody is accepted by a word of his own", "[runtime][handshake]") {
  // Where a hello and a challenge, and where a proof says why its side refuses.
  constexpr std::size_t kInClaims = 8, kInProof = 4;
  for (unsigned verdict = 1; verdict < 256; ++verdict) {
    const auto say = [verdict](std::size_t at) -> Tamper {
      return [=](std::span<std::byte> bytes) { bytes[at] = std::byte(verdict); };
    };
    Handshake by_hello = Handshake::accept(hub_terms(), key_of(1));
    Handshake by_challenge = Handshake::initiate(client_terms(1), key_of(2));
    Handshake by_proof = Handshake::accept(hub_terms(), key_of(1));
    Handshake caller = Handshake::initiate(client_terms(1), key_of(2));
    move_output(caller, by_proof);
    move_output(by_proof, by_challenge, say(kInClaims));
    caller = Handshake::initiate(client_terms(1), key_of(2));
    move_output(caller, by_hello, say(kInClaims));
    std::array<std::byte, Handshake::kProofBytes> proof{};
    const auto magic = bytes_of("RNDO");
    std::copy(magic.begin(), magic.end(), proof.begin());
    say(kInProof)(proof);
    by_proof.feed(proof);
    for (const Handshake* const side : {&by_hello, &by_challenge, &by_proof}) {
      CHECK(side->done());
      CHECK(side->verdict() != Verdict::accepted);
      CHECK_FALSE(side->authenticated());
    }
  }
}

TEST_CASE("no changed byte of hello, challenge or proof is accepted by both sides", "[runtime][handshake]") {
  const std::size_t spoken = Handshake::kHelloBytes + Handshake::kChallengeBytes + Handshake::kProofBytes;
  for (std::size_t flipped = 0; flipped < spoken; ++flipped) {
    Handshake initiator = Handshake::initiate(client_terms(1), key_of(1));
    Handshake acceptor = Handshake::accept(hub_terms(), key_of(1));
    std::size_t seen = 0;
    const Tamper flip = [&](std::span<std::byte> bytes) {
      if (flipped >= seen && flipped - seen < bytes.size()) bytes[flipped - seen] ^= std::byte{0x10};
      seen += bytes.size();
    };
    for (bool moved = true; moved;) {
      moved = move_output(initiator, acceptor, flip);
      if (acceptor.deciding()) acceptor.answer(Verdict::accepted);
      moved = move_output(acceptor, initiator, flip) || moved;
    }
    INFO("byte " << flipped);
    // Five bytes of a proof message are padding, which nothing depends on.
    const std::size_t in_proof = flipped - std::min(flipped, Handshake::kHelloBytes + Handshake::kChallengeBytes);
    const bool padding = flipped >= spoken - Handshake::kProofBytes && in_proof >= 5 && in_proof < 8;
    CHECK((initiator.verdict() == Verdict::accepted && acceptor.verdict() == Verdict::accepted) == padding);
  }
}

TEST_CASE("of two calls that cross, the one of the lower rank stays", "[runtime][handshake]") {
  // Rank 1 called rank 3 itself, and now hears rank 3.
  CHECK(Handshake::refuse_crossed(1, 3));
  CHECK_FALSE(Handshake::refuse_crossed(3, 1));

  Handshake initiator = Handshake::initiate(link_terms(3, 1), key_of(1));
  Handshake acceptor = Handshake::accept(link_terms(1, kAnyRank), key_of(1));
  converse(initiator, acceptor, Verdict::crossed);
  CHECK(initiator.verdict() == Verdict::crossed);
  CHECK(acceptor.verdict() == Verdict::crossed);
}

TEST_CASE("long job ids that differ at their end are different jobs", "[runtime][handshake]") {
  HandshakeTerms mine = client_terms(1);
  HandshakeTerms theirs = hub_terms();
  mine.job_id = std::string(200, 'j') + "1";
  theirs.job_id = std::string(200, 'j') + "1";
  CHECK(meet(mine, key_of(1), theirs, key_of(1)).initiator == Verdict::accepted);
  theirs.job_id.back() = '2';
  CHECK(meet(mine, key_of(1), theirs, key_of(1)).initiator == Verdict::other_job);
}

TEST_CASE("a job key is wiped when it goes", "[runtime][handshake]") {
  alignas(JobKey) std::array<unsigned char, sizeof(JobKey)> memory{};
  auto* key = new (memory.data()) JobKey(JobKey::random());
  CHECK(key->present);
  CHECK(std::any_of(key->bytes.begin(), key->bytes.end(), [](auto b) { return b != 0; }));
  key->~JobKey();
  CHECK(std::all_of(memory.begin(), memory.begin() + JobKey::kBytes, [](auto b) { return b == 0; }));
}
