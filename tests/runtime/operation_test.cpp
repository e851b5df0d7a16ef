#include "runtime/operation.hpp"

#include <optional>
#include <vector>

#include "runtime/group.hpp"
#include "tests/runtime/watched_rank.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;
using rondo::testing::WatchedRank;
using Kind = Notice::Kind;

namespace {

/// Waits for a message of rank 1.
struct Waiting final : Operation {
  Waiting(Group& group, std::optional<Duration> timeout) : Operation(group, rondo::Call{}, timeout) {}
  rondo::Task body() override {
    std::byte into{};
    ReceiveMessage message(*this, 1, 0, std::span(&into, 1));
    co_await message;
  }
};

}  // namespace

TEST_CASE("the hub hears of a collective that waits for a second, or for half of its deadline",
          "[runtime][operation]") {
  const auto [timeout, told_after] = GENERATE(
      table<std::optional<Duration>, Duration>({{std::nullopt, 1s}, {60s, 1s}, {2s, 1s}, {600ms, 300ms}, {0s, 20ms}}));
  WatchedRank rank;
  Group& group = rank.engine.make_group(7, {0, 1, 2});
  Waiting operation(group, timeout);
  operation.start();
  rank.pass(told_after - 20ms);
  CHECK(rank.heard().empty());
  rank.pass(20ms);
  const std::vector<Notice> heard = rank.heard();
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].kind == Kind::stalled);
  CHECK(heard[0].number == operation.number());
  CHECK(heard[0].awaited == std::vector<Notice::Awaited>{{1, 1}});
  rank.pass(5s);
  CHECK(rank.heard().empty());  // who it waits for is the same
}
