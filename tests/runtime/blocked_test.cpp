#include "runtime/blocked.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>

#include "runtime/control.hpp"
#include "runtime/engine.hpp"
#include "tests/runtime/hub_client.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/still.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;
using rondo::LogLevel;
using Kind = Notice::Kind;

namespace {

/// Rank 0 of 3, whose hub is spoken by hand.
struct WatchedRank {
  WatchedRank() {
    Welcome welcome;
    welcome.key = JobKey::random();
    welcome.size = 3;
    hub.tell(welcome);
    Identity identity;
    identity.size = 3;
    identity.meeting.kind = MeetingPoint::Kind::descriptor;
    identity.meeting.descriptor = inherited;
    control.emplace(identity, rondo::Config{});
    engine.use(*control);
  }

  HubClient one_end() {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("socketpair");
    inherited = pair[1];
    return {context, Descriptor(pair[0])};
  }
  static Engine::Settings settings() {
    Engine::Settings settings;
    settings.size = 3;
    return settings;
  }
  /// Time passes in steps of a tick's, as it does for who waits.
  void pass(Duration time) {
    for (const Time until = clock.time + time; clock.time < until;) {
      clock.time += 20ms;
      engine.tick(clock.time);
    }
  }
  void tell(Notice notice) {
    hub.tell(notice);
    pollfd told{control->descriptor(), POLLIN, 0};
    REQUIRE(::poll(&told, 1, 20'000) == 1);
    engine.tick(clock.time);
  }
  /// What the hub has heard up to here.
  std::vector<Notice> heard() {
    Notice marker;
    marker.kind = Kind::failed;
    control->tell(marker);
    std::vector<Notice> notices;
    for (auto next = hub.expect<Notice>(); next.kind != Kind::failed; next = hub.expect<Notice>()) {
      notices.push_back(std::move(next));
    }
    return notices;
  }

  asio::io_context context{1};
  int inherited = -1;
  HubClient hub = one_end();
  std::optional<Control> control;
  rondo::testing::SetClock clock;
  rondo::testing::NoWaiter waiter;
  std::vector<std::string> lines;
  Engine engine{settings(), clock, waiter,
                Log(LogLevel::warn, 0, [this](LogLevel, std::string_view line) { lines.emplace_back(line); })};
};

Notice circle(std::uint64_t number) {
  Notice notice;
  notice.kind = Kind::circle;
  notice.number = number;
  notice.text = "; rank 1 waits in recv from rank 0 with tag 8";
  return notice;
}

}  // namespace

TEST_CASE("the hub hears of a thread that waits for a second, of whom it waits for then, and of its end",
          "[runtime][blocked]") {
  WatchedRank rank;
  BlockedOn what{.call = "recv from rank 1 with tag 7", .ranks = {{1, 1}}};
  {
    const BlockedWhile brief(rank.engine, [&] { return what; });
    rank.pass(900ms);
  }
  CHECK(rank.heard().empty());
  {
    const BlockedWhile blocked(rank.engine, [&] { return what; });
    rank.pass(1100ms);
    auto heard = rank.heard();
    REQUIRE(heard.size() == 1);
    CHECK(heard[0].kind == Kind::waits);
    CHECK(heard[0].number == blocked.number());
    CHECK(heard[0].text == what.call);
    CHECK(heard[0].awaited == what.ranks);
    rank.pass(3s);
    CHECK(rank.heard().empty());
    what.ranks.clear();  // it is under way
    rank.pass(1100ms);
    heard = rank.heard();
    REQUIRE(heard.size() == 1);
    CHECK(heard[0].awaited.empty());
  }
  const auto heard = rank.heard();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].text == "");
  CHECK(heard[0].number != 0);
}

TEST_CASE("who waits in a circle says so after 10 s, 20 s and so on, and not otherwise", "[runtime][blocked]") {
  WatchedRank rank;
  std::optional<BlockedOn> what = BlockedOn{.call = "recv from rank 1 with tag 7", .ranks = {{1, 1}}};
  const BlockedWhile blocked(rank.engine, [&] { return *what; });
  rank.pass(2s);
  rank.tell(circle(blocked.number()));
  CHECK(rank.lines.empty());
  (void)rank.heard();
  rank.pass(8100ms);
  CHECK(rank.heard().size() == 1);  // told again
  CHECK(rank.lines.empty());        // as long as the hub knows of no circle
  rank.tell(circle(blocked.number() + 1));
  CHECK(rank.lines.empty());
  rank.tell(circle(blocked.number()));
  rank.tell(circle(blocked.number()));
  REQUIRE(rank.lines.size() == 1);
  CHECK(rank.lines[0] ==
        "rondo: rank 0: recv from rank 1 with tag 7: waiting 10 s; rank 1 waits in recv from rank 0 with tag 8: "
        "a deadlock, unless another thread goes on");
  rank.pass(10s);
  rank.tell(circle(blocked.number()));
  CHECK(rank.lines.size() == 2);
  what->tells = false;
  rank.pass(20s);
  rank.tell(circle(blocked.number()));
  CHECK(rank.lines.size() == 2);
}
