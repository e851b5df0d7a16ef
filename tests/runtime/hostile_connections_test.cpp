#include <sys/socket.h>

#include <array>
#include <chrono>
#include <deque>
#include <span>
#include <thread>
#include <utility>

#include <rondo/error.hpp>

#include "runtime/hub.hpp"
#include "tests/runtime/hub_client.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using rondo::Errc;

namespace {

constexpr int kSize = 3;

/// A hub that listens, and a job that wants to run on it whatever strangers do.
struct Port {
  explicit Port(std::chrono::nanoseconds handshake = 10s, std::size_t half_open = 64)
      : hub(context, plan(key, handshake, half_open)), address(hub.listen_tcp("127.0.0.1", 0)) {}

  static Hub::Job plan(const JobKey& key, std::chrono::nanoseconds handshake, std::size_t half_open) {
    Hub::Job job;
    job.id = "job-7";
    job.attempt = 1;
    job.size = kSize;
    job.key = key;
    job.limits.handshake = handshake;
    job.limits.half_open = half_open;
    return job;
  }

  HandshakeTerms terms(int rank) const {
    HandshakeTerms terms;
    terms.role = ConnectionRole::hub;
    terms.job_id = "job-7";
    terms.attempt = 1;
    terms.size = kSize;
    terms.rank = rank;
    terms.peer = kHubRank;
    return terms;
  }

  HubClient stranger() { return HubClient::stranger(context, address); }

  Verdict meet(HubClient& client, const HandshakeTerms& claims, const JobKey& with) {
    Handshake handshake = Handshake::initiate(claims, with);
    return client.shake_hands(handshake);
  }

  HubClient join(int rank) {
    HubClient client = stranger();
    REQUIRE(meet(client, terms(rank), key) == Verdict::accepted);
    client.tell(Join{"address " + std::to_string(rank), 0});
    return client;
  }

  /// The proof that strangers changed nothing: all ranks still meet.
  std::deque<HubClient> job_runs() {
    std::deque<HubClient> ranks;
    for (int rank = 0; rank < kSize; ++rank) ranks.push_back(join(rank));
    for (auto& rank : ranks) CHECK(rank.expect<Table>().addresses.size() == kSize);
    return ranks;
  }

  JobKey key = JobKey::random();
  asio::io_context context{1};
  Hub hub;
  std::string address;
};

}  // namespace

TEST_CASE("strangers that speak something else are turned away and disturb no job", "[runtime][hostile]") {
  Port port;
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("SSH-2.0-OpenSSH\r\n"),
                                   std::string("\x16\x03\x01\x02\x00\x01", 6), std::string(1 << 16, 'x')}) {
    HubClient stranger = port.stranger();
    stranger.send(words);
    CHECK(stranger.ends());
  }
  port.stranger().close();
  run_until(port.context, [&] { return port.hub.half_open() == 0 && port.hub.refused() >= 4; });
  port.job_runs();
}

TEST_CASE("a stranger that says it is accepted is turned away", "[runtime][hostile]") {
  Port port;
  for (const int rank : {1, -1, 1'000'000}) {
    const Handshake handshake = Handshake::initiate(port.terms(rank), JobKey::random());
    std::string hello(reinterpret_cast<const char*>(handshake.output().data()), handshake.output().size());
    hello[8] = static_cast<char>(Verdict::accepted);
    HubClient stranger = port.stranger();
    stranger.send(hello);
    CHECK(stranger.ends());
  }
  port.job_runs();
}

TEST_CASE("half a hello and then silence ends at the limit", "[runtime][hostile]") {
  Port port(20ms);
  const JobKey key = port.key;
  Handshake handshake = Handshake::initiate(port.terms(1), key);
  for (const std::size_t spoken :
       {std::size_t{0}, std::size_t{3}, Handshake::kHelloBytes / 2, Handshake::kHelloBytes}) {
    HubClient stranger = port.stranger();
    if (spoken > 0) stranger.send(handshake.output().first(spoken));
    CHECK(stranger.ends());
  }
  CHECK(port.hub.refused() == 4);
}

TEST_CASE("a rank whose last word of the handshake comes with the limit is in", "[runtime][hostile]") {
  constexpr auto kLimit = 500ms;
  Port port(kLimit);
  std::deque<HubClient> ranks;
  for (int rank = 0; rank < kSize - 1; ++rank) ranks.push_back(port.join(rank));
  HubClient& last = ranks.emplace_back(port.stranger());
  Handshake handshake = Handshake::initiate(port.terms(kSize - 1), port.key);
  const auto say = [&] {
    last.send(handshake.output());
    handshake.sent(handshake.output().size());
  };
  say();
  std::array<std::byte, 256> challenge;
  ssize_t got = 0;
  run_until(port.context, [&] {
    got = ::recv(last.descriptor(), challenge.data(), handshake.wanted(), MSG_DONTWAIT);
    return got > 0;
  });
  handshake.feed(std::span(challenge).first(static_cast<std::size_t>(got)));
  say();
  std::this_thread::sleep_for(kLimit);  // the hub has no core
  CHECK(last.shake_hands(handshake) == Verdict::accepted);
  last.tell(Join{"late", 0});
  for (auto& rank : ranks) CHECK(rank.expect<Table>().addresses.size() == kSize);
}

TEST_CASE("a dripping stranger ends at the same limit", "[runtime][hostile]") {
  Port port(20ms);
  HubClient stranger = port.stranger();
  std::size_t dripped = 0;
  const JobKey key = port.key;
  Handshake handshake = Handshake::initiate(port.terms(1), key);
  stranger.send(handshake.output().first(1));
  run_until(port.context, [&] {
    if (port.hub.refused() > 0) return true;
    if (++dripped < Handshake::kHelloBytes / 2) stranger.send(handshake.output().subspan(dripped, 1));
    return false;
  });
  CHECK(stranger.ends());
}

TEST_CASE("wrong key, job, attempt, version, role and rank are each told and turned away", "[runtime][hostile]") {
  Port port;
  struct Case {
    Verdict verdict;
    std::function<void(HandshakeTerms&)> change;
  };
  for (const Case& c : {Case{Verdict::other_job, [](auto& t) { t.job_id = "job-8"; }},
                        Case{Verdict::other_attempt, [](auto& t) { t.attempt = 2; }},
                        Case{Verdict::other_role, [](auto& t) { t.role = ConnectionRole::link; }},
                        Case{Verdict::wrong_rank, [](auto& t) { t.rank = kSize; }},
                        Case{Verdict::wrong_rank, [](auto& t) { t.rank = -7; }}}) {
    HandshakeTerms terms = port.terms(1);
    c.change(terms);
    HubClient stranger = port.stranger();
    CHECK(port.meet(stranger, terms, port.key) == c.verdict);
    CHECK(stranger.ends());
  }
  HubClient stranger = port.stranger();
  CHECK(port.meet(stranger, port.terms(1), JobKey::random()) == Verdict::wrong_key);
  HubClient keyless = port.stranger();
  CHECK(port.meet(keyless, port.terms(1), JobKey{}) == Verdict::wrong_key);
  HubClient old = port.stranger();
  old.send(std::string("RNDO\x00\x00", 6));
  CHECK(old.ends());
  CHECK_FALSE(port.hub.failure());
  port.job_runs();
}

TEST_CASE("a recorded handshake does not open the door again", "[runtime][hostile]") {
  Port port;
  std::vector<std::byte> recorded;
  {
    HubClient client = port.stranger();
    Handshake handshake = Handshake::initiate(port.terms(1), port.key);
    const auto record = [&] { recorded.insert(recorded.end(), handshake.output().begin(), handshake.output().end()); };
    record();
    client.send(handshake.output());
    handshake.sent(handshake.output().size());
    run_until(port.context, [&] {
      std::array<std::byte, 256> buffer;
      const ssize_t got = ::recv(client.descriptor(), buffer.data(), handshake.wanted(), MSG_DONTWAIT);
      if (got > 0) handshake.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
      return !handshake.output().empty();
    });
    record();
  }
  HubClient replay = port.stranger();
  replay.send(recorded);
  CHECK(replay.ends());
  CHECK_FALSE(port.hub.failure());
  port.job_runs();
}

TEST_CASE("strangers beyond the limit push out the oldest, not the ranks", "[runtime][hostile]") {
  Port port(10s, 8);
  std::deque<HubClient> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.push_back(port.stranger());
    port.context.restart();
    port.context.poll();
    CHECK(port.hub.half_open() <= 8);
  }
  CHECK(strangers.front().ends());
  port.job_runs();
  CHECK(port.hub.half_open() <= 8);
}

TEST_CASE("two processes with one rank: while the ranks meet, all are told", "[runtime][hostile]") {
  Port port;
  HubClient zero = port.join(0);
  HubClient one = port.stranger();
  REQUIRE(port.meet(one, port.terms(1), port.key) == Verdict::accepted);
  HubClient again = port.stranger();
  CHECK(port.meet(again, port.terms(1), port.key) == Verdict::duplicate_rank);
  for (HubClient* rank : {&zero, &one}) {
    const auto notice = rank->expect<Notice>();
    CHECK(notice.kind == Notice::Kind::abort);
    CHECK(notice.code == Errc::duplicate_rank);
    CHECK_THAT(notice.text, ContainsSubstring("rank 1 is claimed twice: by 127.0.0.1:"));
  }
  // Who comes later is told the same.
  HubClient late = port.stranger();
  CHECK(port.meet(late, port.terms(2), port.key) == Verdict::accepted);
  CHECK(late.expect<Notice>().code == Errc::duplicate_rank);
}

TEST_CASE("two processes with one rank: a job that runs is not disturbed", "[runtime][hostile]") {
  Port port;
  auto ranks = port.job_runs();
  HubClient again = port.stranger();
  CHECK(port.meet(again, port.terms(1), port.key) == Verdict::duplicate_rank);
  CHECK_FALSE(port.hub.failure());
  Notice goodbye;
  ranks[2].tell(goodbye);
  CHECK(ranks[0].expect<Notice>().kind == Notice::Kind::left);
}

TEST_CASE("who has left a job that runs, or died in it, has its number no more and is to call again",
          "[runtime][hostile]") {
  Port port;
  auto ranks = port.job_runs();
  const auto end = GENERATE(Notice::Kind::left, Notice::Kind::abort, Notice::Kind::dead);
  if (end == Notice::Kind::dead) {
    (void)HubClient(std::move(ranks[1]));
  } else {
    Notice word;
    word.kind = end == Notice::Kind::left ? Notice::Kind::goodbye : end;
    ranks[1].tell(word);
  }
  CHECK(ranks[0].expect<Notice>().kind == end);
  HubClient again = port.stranger();
  CHECK(port.meet(again, port.terms(1), port.key) == Verdict::closing);
}

TEST_CASE("who comes for the next job while the one before ends is to call again, whatever it claims",
          "[runtime][hostile]") {
  Port port;
  auto ranks = port.job_runs();
  ranks[1].tell(Notice{});  // its goodbye
  ranks[0].expect<Notice>();
  HandshakeTerms claims = port.terms(2);  // that one has not left
  SECTION("the number of another") {}
  SECTION("another size") { claims.size = kSize - 1; }
  SECTION("a number that this job has not") {
    claims.size = 2 * kSize;
    claims.rank = 2 * kSize - 1;
  }
  HubClient next = port.stranger();
  CHECK(port.meet(next, claims, port.key) == Verdict::closing);
  CHECK_FALSE(port.hub.failure());
}

TEST_CASE("ranks that disagree on the size are all told", "[runtime][hostile]") {
  Port port;
  HubClient zero = port.join(0);
  HandshakeTerms terms = port.terms(1);
  terms.size = 2;
  HubClient other = port.stranger();
  CHECK(port.meet(other, terms, port.key) == Verdict::other_size);
  const auto notice = zero.expect<Notice>();
  CHECK(notice.code == Errc::bad_configuration);
  CHECK_THAT(notice.text, ContainsSubstring("rank 1") && ContainsSubstring("says 2, the hub 3"));
}

TEST_CASE("many strangers during a job leave no descriptor behind", "[runtime][hostile]") {
  Port port(10s, 16);
  auto ranks = port.job_runs();
  for (int round = 0; round < 300; ++round) {
    HubClient stranger = port.stranger();
    switch (round % 4) {
      case 0: break;
      case 1: stranger.send(std::string("GET / HTTP/1.0\r\n\r\n")); break;
      case 2: stranger.send(std::string("RNDO\x01\x00half", 10)); break;
      case 3: CHECK(port.meet(stranger, port.terms(1), JobKey::random()) == Verdict::wrong_key); break;
    }
  }
  run_until(port.context, [&] { return port.hub.half_open() == 0; });
  CHECK(port.hub.refused() == 300);
  CHECK_FALSE(port.hub.failure());
  ranks[1].tell(Notice{});
  CHECK(ranks[0].expect<Notice>().kind == Notice::Kind::left);
}
