#include <array>
#include <cstddef>
#include <limits>
#include <span>

#include "tests/runtime/held_peer.hpp"
#include "tests/support/catch.hpp"

// A rank that has no memory for what comes. A sanitizer ends the process then: not under one.

using namespace rondo;
using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::Combining;
using rondo::testing::Pair;

namespace {

/// More than any machine has.
constexpr std::size_t kTooMuch = std::size_t{1} << 62;

struct HungryPair : Pair {
  HungryPair() : Pair(promising()) {}
  static Engine::Settings promising() {
    Engine::Settings settings = Pair::settings();
    settings.unexpected_bytes = std::numeric_limits<std::size_t>::max();
    return settings;
  }
  static FrameHeader header(FrameKind kind, std::uint32_t id, std::uint64_t communicator = kGroup) {
    FrameHeader header = Pair::header(kind, id, communicator);
    header.bytes = kTooMuch;
    return header;
  }
  void bring(const FrameHeader& header) const {
    CHECK(peer.accept(header) == nullptr);
    peer.arrived(header);
    CHECK_FALSE(link->discarded);
  }
};

}  // namespace

TEST_CASE("a payload that there is no memory to combine from ends its collective", "[runtime][peer]") {
  HungryPair pair;
  int times = 0;
  std::array<std::byte, 4> some{};
  // Nobody writes to it.
  const std::span into(some.data(), kTooMuch);
  Combining operation(*pair.group, into, times);
  pair.bring(HungryPair::header(FrameKind::data, operation.begin(pair)));
  pair.engine.run_ready();
  REQUIRE(operation.finished());
  CHECK(times == 0);
  CHECK_THROWS_WITH(pair.group->check(),
                    ContainsSubstring("rank 0 threw: no memory for the 4611686018427387904 bytes that rank 1 sent"));
}

TEST_CASE("a message that came too early and that there is no memory for ends its communicator", "[runtime][peer]") {
  HungryPair pair;
  SECTION("at once") { pair.bring(HungryPair::header(FrameKind::eager, 0)); }
  SECTION("after it was announced, and is waited for") {
    pair.peer.deliver(HungryPair::header(FrameKind::announce, 1), {});
    std::array<std::byte, 4> some{};
    ReceiveMessage claimant(*pair.group, 1, Tag{3}, ElementType::bytes, std::span(some.data(), kTooMuch));
    CHECK_FALSE(claimant.done());
    pair.bring(HungryPair::header(FrameKind::late, 1));
    CHECK(claimant.done());
    CHECK(claimant.error() != nullptr);
  }
  CHECK_FALSE(pair.group->has_unexpected());
  CHECK_FALSE(pair.peer.gone());
  CHECK_THROWS_WITH(pair.group->check(),
                    ContainsSubstring("rank 0 has no memory for 4611686018427387904 bytes that rank 1 sent"));
}

TEST_CASE("a message for a communicator that is not there yet, and no memory for it, lose its sender",
          "[runtime][peer]") {
  HungryPair pair;
  pair.bring(HungryPair::header(FrameKind::eager, 0, 8));
  CHECK(pair.peer.gone());
  CHECK_THAT(pair.peer.cause(), ContainsSubstring("no memory for 4611686018427387904 bytes"));
  CHECK_FALSE(pair.engine.make_group(8, {0, 1}).has_unexpected());
}
