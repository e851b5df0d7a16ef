#include <optional>
#include <vector>

#include "runtime/idle.hpp"
#include "tests/runtime/held_peer.hpp"
#include "tests/support/catch.hpp"

// What a rank knows of when the messages come that it waits for, and how that has it wait.

using namespace rondo;
using namespace rondo::detail;
using rondo::testing::Four;
using rondo::testing::four;
using rondo::testing::Pair;
using rondo::testing::Receive;

namespace {

/// Three ranks on cores 4 and 7: the first two share one.
Engine::Settings crowded() {
  Engine::Settings settings = Pair::settings();
  settings.idle = IdlePolicy::for_ranks(3, 2);
  settings.cores = {4, 7};
  settings.core_places = {0, 1, 2};
  return settings;
}

struct Asking : Pair {
  explicit Asking(const Engine::Settings& settings = crowded()) : Pair(settings) { link->is_system = true; }

  void ask() { message.emplace(*group, 1, Tag{3}, ElementType::bytes, question); }
  void ask_at_length(std::size_t bytes) {
    long_question.resize(bytes);
    message.emplace(*group, 1, Tag{3}, ElementType::bytes, long_question);
  }
  /// How often the clock has been read when the link is looked at for the first time.
  int reads_before_look() {
    std::optional<int> reads;
    link->on_poll = [&] {
      if (!reads) waits = waiter.waits;
      reads = reads.value_or(clock.reads - before);
    };
    before = clock.reads;
    Progress::Entry entry(engine.progress());
    engine.progress().until(
        entry, [&] { return reads.has_value(); }, std::nullopt);
    return *reads;
  }

  Four question = four(1);
  std::vector<std::byte> long_question;
  std::optional<SendMessage> message;
  int before = 0;
  int waits = 0;  ///< before that look
};

}  // namespace

TEST_CASE("what is awaited from whoever has been sent a short message is its answer", "[runtime][answers]") {
  Asking rank;
  rank.ask();
  CHECK_FALSE(rank.engine.awaits_answer());  // nothing is awaited
  const Receive receive(*rank.group);
  CHECK(rank.engine.awaits_answer());

  SECTION("until it comes") {
    rank.eager(four(2));
    const Receive next(*rank.group);
    CHECK_FALSE(rank.engine.awaits_answer());
  }
  SECTION("until a part of it comes") {
    rank.peer.accept(Asking::header(FrameKind::eager, 0));
    CHECK_FALSE(rank.engine.awaits_answer());
  }
  SECTION("if to look for it is a system call") {
    rank.link->is_system = false;
    CHECK_FALSE(rank.engine.awaits_answer());
  }
}

TEST_CASE("a message that goes for long is no question, whoever asks for it", "[runtime][answers]") {
  constexpr std::size_t kLong = std::size_t{20} << 10;
  Engine::Settings settings = crowded();
  const bool eager = GENERATE(true, false);
  settings.eager_limit = eager ? 2 * kLong : kLong / 2;
  Asking rank(settings);
  rank.ask_at_length(kLong);
  REQUIRE(rank.link->sent.back().kind == (eager ? FrameKind::eager : FrameKind::rts));
  const Receive receive(*rank.group);
  CHECK_FALSE(rank.engine.awaits_answer());
}

TEST_CASE("who shares a core gives it away before the first look for an answer", "[runtime][answers]") {
  SECTION("for an answer") {
    Asking rank;
    rank.ask();
    const Receive receive(*rank.group);
    CHECK(rank.reads_before_look() > 0);
    CHECK(rank.waits == 0);
  }
  SECTION("not for what comes by itself") {
    Asking rank;
    const Receive receive(*rank.group);
    CHECK(rank.reads_before_look() == 0);
  }
}

TEST_CASE("who is not to yield looks before it sleeps", "[runtime][answers]") {
  Engine::Settings settings = crowded();
  const bool never = GENERATE(true, false);
  if (never) settings.idle.yield = Duration::zero();
  Asking rank(settings);
  if (!never) rank.engine.progress().habits().yield(rank.clock, rank.clock.time - 3 * settings.idle.long_yield);
  rank.ask();
  const Receive receive(*rank.group);
  rank.reads_before_look();
  CHECK(rank.waits == 0);
}

TEST_CASE("who waits for answers from other cores alone is told apart", "[runtime][answers]") {
  Engine::Settings settings = crowded();
  const auto found = [&] {
    Asking rank(settings);
    rank.ask();
    const Receive receive(*rank.group);
    rank.engine.poll(Engine::Look::awaited);
    return rank.engine.polled().answers;
  };
  CHECK_FALSE(found());  // rank 1 is on this core
  settings.core_places = {0, 2, 1};
  CHECK(found());
  settings.core_places = {0, -1, 1};  // on another host
  CHECK_FALSE(found());
  settings.core_places = {0, 2, 1};
  settings.cores = {4, 5, 7};  // one for each
  CHECK_FALSE(found());
  settings.cores = {4};
  CHECK_FALSE(found());
  settings.cores = {4, 7};

  Asking rank(settings);
  const Receive receive(*rank.group);
  rank.engine.poll(Engine::Look::awaited);
  CHECK(rank.engine.polled().system == 1);
  CHECK_FALSE(rank.engine.polled().answers);  // nothing was sent to it
}

TEST_CASE("who looks now and then, and in vain, leaves no link unsettled", "[runtime][answers]") {
  Pair pair;
  const Receive receive(*pair.group);
  Progress::Entry entry(pair.engine.progress());
  pair.engine.progress().poke(entry);
  CHECK(pair.link->settled == 1);
  pair.link->moves = 1;
  pair.engine.progress().poke(entry);
  CHECK(pair.link->settled == 1);
}

TEST_CASE("a link whose other side has said goodbye is settled before nobody looks at it any more",
          "[runtime][answers]") {
  Pair pair;
  pair.link->on_poll = [&] { pair.peer.deliver(Pair::header(FrameKind::bye, 0), {}); };
  pair.engine.poll(Engine::Look::everything);
  CHECK(pair.link->settled == 1);
  pair.engine.settle();
  CHECK(pair.link->settled == 1);
}
