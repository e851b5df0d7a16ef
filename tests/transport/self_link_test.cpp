#include "transport/self_link.hpp"

#include <poll.h>

#include <array>
#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo::detail;

namespace {

struct Frame : Outgoing {
  explicit Frame(std::uint32_t id, std::span<const std::byte> bytes = {}) {
    header.id = id;
    payload = bytes;
    on_sent = [](Outgoing& frame) noexcept { static_cast<Frame&>(frame).sent = true; };
  }
  bool sent = false;
};

/// Keeps what comes, and does something about the first frame.
struct Keeper final : Sink {
  void deliver(const FrameHeader& header, std::span<const std::byte> payload) override {
    ids.push_back(header.id);
    payloads.emplace_back(payload.begin(), payload.end());
    if (ids.size() == 1 && at_first) at_first();
  }
  std::byte* accept(const FrameHeader&) override { return nullptr; }
  void arrived(const FrameHeader&) override {}
  void closed(const std::string&) override {}

  std::vector<std::uint32_t> ids;
  std::vector<std::vector<std::byte>> payloads;
  std::function<void()> at_first;
};

bool wakes(const Link& link) {
  pollfd asked{link.descriptor(), POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

}  // namespace

TEST_CASE("what a rank sends to itself a poll delivers, in order", "[transport][self_link]") {
  SelfLink link;
  const std::array bytes{std::byte{1}, std::byte{2}};
  Frame first(1, bytes), second(2);
  CHECK_FALSE(wakes(link));
  link.send(first);
  link.send(second);
  CHECK(wakes(link));
  CHECK_FALSE(link.flushed());
  CHECK_FALSE(first.sent);
  Keeper keeper;
  CHECK(link.poll(keeper) == 2);
  CHECK(keeper.ids == std::vector<std::uint32_t>{1, 2});
  CHECK(keeper.payloads[0] == std::vector(bytes.begin(), bytes.end()));
  CHECK(first.sent);
  CHECK(second.sent);
  CHECK(link.flushed());
  CHECK_FALSE(wakes(link));
}

TEST_CASE("what is taken back is not delivered, and what is sent meanwhile is", "[transport][self_link]") {
  SelfLink link;
  Frame first(1), second(2), third(3);
  link.send(first);
  link.send(second);
  Keeper keeper;
  keeper.at_first = [&] {
    link.release(first);
    link.release(second);
    link.send(third);
  };
  CHECK(link.poll(keeper) == 2);
  CHECK(keeper.ids == std::vector<std::uint32_t>{1, 3});
  CHECK_FALSE(first.sent);
  CHECK_FALSE(second.sent);
  CHECK(third.sent);
}
