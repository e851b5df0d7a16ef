#include "runtime/operation.hpp"

#include <optional>
#include <vector>

#include "runtime/group.hpp"
#include "tests/runtime/watched_rank.hpp"

using namespace rondo::detail;
using namespace std::chrono_literals;
using rondo::Error;
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

/// Finds that another rank called something else.
struct Differing final : Operation {
  explicit Differing(Group& members) : Operation(members, rondo::Call{}, std::nullopt) {}
  rondo::Task body() override {
    group().report_failure(Error(rondo::Errc::collective_mismatch, "what this rank saw", {}));
    co_return;
  }
};

}  // namespace

TEST_CASE("an operation that found its communicator failed throws what all hear of it, once that is known",
          "[runtime][operation]") {
  WatchedRank rank;
  Group& group = rank.engine.make_group(7, {0, 1, 2});
  Differing operation(group);
  operation.start();
  CHECK_FALSE(operation.finished());
  Notice verdict;
  verdict.kind = Kind::poisoned;
  verdict.rank = 1;
  verdict.communicator = 7;
  verdict.code = rondo::Errc::collective_mismatch;
  verdict.text = "what rank 1 saw";
  rank.tell(verdict);
  rank.engine.run_ready();
  REQUIRE(operation.finished());
  REQUIRE(operation.error());
  CHECK_THROWS_WITH(std::rethrow_exception(operation.error()), Catch::Matchers::ContainsSubstring("what rank 1 saw"));
}

TEST_CASE("which calls before differed is left to the hub for three seconds", "[runtime][operation]") {
  WatchedRank rank;
  Waiting operation(rank.engine.make_group(7, {0, 1, 2}), std::nullopt);
  operation.start();
  rank.clock.time += 10s;
  CHECK(operation.leaves_it_to_hub());
  rank.clock.time += 3s - 1ms;
  CHECK(operation.leaves_it_to_hub());
  rank.clock.time += 1ms;
  CHECK_FALSE(operation.leaves_it_to_hub());
}

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
