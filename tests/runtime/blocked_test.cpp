#include "runtime/blocked.hpp"

#include <exception>
#include <optional>
#include <stdexcept>
#include <vector>

#include "runtime/operation.hpp"
#include "tests/runtime/watched_rank.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;
using rondo::testing::WatchedRank;
using Kind = Notice::Kind;

namespace {

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

TEST_CASE("of a call that is over the hub hears nothing, though its thread has not seen that yet",
          "[runtime][blocked]") {
  /// Its communicator has been destroyed since.
  struct Over final : Waitable {
    Over() : Waitable(0) {}
    bool finished() const noexcept override { return true; }
    std::exception_ptr error() const noexcept override { return nullptr; }
    void expire(Time) override {}
    void abandon() override {}
    BlockedOn still_blocked_on() const override { throw std::logic_error("it looks into what is over"); }
  };
  WatchedRank rank;
  const Over over;
  const BlockedWhile blocked(rank.engine, [&] { return over.blocked_on(); });
  rank.pass(12s);
  CHECK(rank.heard().empty());
}

TEST_CASE("who waits for more ranks than the hub can hear of is under way", "[runtime][blocked]") {
  WatchedRank rank;
  const BlockedOn what{.call = "recv from any rank with tag 7", .ranks = std::vector<Notice::Awaited>(257, {1, 1})};
  const BlockedWhile blocked(rank.engine, [&] { return what; });
  rank.pass(1100ms);
  const auto heard = rank.heard();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].awaited.empty());
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
  what->ranks.clear();  // it is under way
  rank.pass(20s);
  rank.tell(circle(blocked.number()));
  CHECK(rank.lines.size() == 2);
}
