// Of the suite for every Link: frames that go and are taken at once, among others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/every_link.hpp"
#include "tests/support/frames.hpp"

using namespace rondo::detail;
using namespace rondo::testing;

namespace {

// Takes what has come without a poll, as if it had been polled. False: there is nothing that can be taken so.
bool take_arrived(Link& link, Recorder& recorder) {
  const auto found = link.arrived(1);
  if (!found) return false;
  FrameHeader header;
  std::memcpy(static_cast<void*>(&header), &found->header, sizeof found->header);
  header.bytes = found->payload.size();
  recorder.deliver(header, found->payload);
  link.take_arrived();
  return true;
}

bool send_now(Link& link, const TestFrame& frame) {
  return link.send_now(EagerHeader::of(frame.header.type, frame.header.tag, frame.header.communicator), frame.payload);
}

}  // namespace

TEST_CASE("frames keep their order however each is sent and taken", "[transport][link]") {
  EVERY_LINK;
  constexpr unsigned kFrames = 6000;
  const unsigned between_polls = GENERATE(1, 3, 500);
  std::minstd_rand random(between_polls);
  const auto one_of = [&](unsigned many) { return random() % many == 0; };
  const bool is_shm = ends.second->transport() == "shm";
  std::vector<std::unique_ptr<TestFrame>> frames;
  std::size_t at_once = 0, taken = 0;
  for (unsigned i = 0; i < kFrames; ++i) {
    const std::size_t bytes = one_of(200) ? 30'000 : random() % 100;
    frames.push_back(std::make_unique<TestFrame>(i, pattern(bytes, i)));
    TestFrame& frame = *frames.back();
    frame.header.type = static_cast<std::uint8_t>(i);
    frame.header.communicator = ~std::uint64_t{i};
    // The link keeps nothing of a frame that has gone at once, and says nothing of it.
    const bool now = one_of(2) && send_now(*ends.first, frame);
    if (now) std::fill_n(frame.storage.begin(), bytes, std::byte{0xee});
    if (!now) ends.first->send(frame);
    at_once += now ? 1 : 0;
    if (i % between_polls != 0) continue;
    if (one_of(3)) ends.first->poll(left);
    while (one_of(2) && take_arrived(*ends.second, right)) ++taken;
    if (one_of(3)) ends.second->poll(right);
  }
  for (int polls = 0; right.frames.size() < kFrames && polls < 2'000'000; ++polls) {
    ends.first->poll(left);
    if (one_of(2) && take_arrived(*ends.second, right)) ++taken;
    if (one_of(2)) ends.second->poll(right);
  }
  REQUIRE(right.frames.size() == kFrames);
  bool in_order = true;
  for (unsigned i = 0; i < kFrames; ++i) {
    const auto& [header, payload] = right.frames[i];
    in_order &= std::memcmp(&header, &frames[i]->header, sizeof header) == 0;
    in_order &= payload == pattern(frames[i]->storage.size(), i);
  }
  CHECK(in_order);
  if (is_shm) CHECK((at_once > 0 && taken > 0));
}

TEST_CASE("a frame for which there is no room does not go at once, nor before those that wait", "[transport][link]") {
  EVERY_LINK;
  std::vector<std::unique_ptr<TestFrame>> frames;
  const auto next = [&]() -> TestFrame& {
    const auto tag = static_cast<std::uint32_t>(frames.size());
    frames.push_back(std::make_unique<TestFrame>(tag, pattern(40, tag)));
    return *frames.back();
  };
  const auto is_full = [&] { return !send_now(*ends.first, next()); };
  while (!is_full()) continue;
  const std::size_t at_once = frames.size() - 1;
  CHECK((at_once > 0) == (ends.second->transport() == "shm"));
  // Nothing has happened to the one that had no room. Behind one that waits, none goes at once though there is room.
  frames.pop_back();
  TestFrame& waits = next();
  ends.first->send(waits);
  if (at_once > 0) CHECK(waits.sent == 0);
  for (std::size_t i = 0; i < at_once; ++i) REQUIRE(take_arrived(*ends.second, right));
  CHECK_FALSE(ends.second->arrived(1));
  if (at_once > 0) {
    TestFrame behind(99, {});
    CHECK_FALSE(send_now(*ends.first, behind));
  }
  ends.first->send(next());
  run(ends, left, right, [&] { return right.frames.size() == frames.size(); });
  for (std::size_t i = 0; i < frames.size(); ++i) {
    CHECK(right.frames[i].header.tag == i);
    CHECK(right.frames[i].payload == frames[i]->storage);
  }
}

TEST_CASE("of a frame that comes in pieces nothing is taken but by polls", "[transport][link]") {
  EVERY_LINK;
  TestFrame large(1, pattern(500'000, 1)), small(2, pattern(8, 2));
  CHECK_FALSE(send_now(*ends.first, large));
  ends.first->send(large);
  ends.first->send(small);
  bool taken_too_soon = false;
  run(ends, left, right, [&] {
    taken_too_soon |= right.frames.empty() && ends.second->arrived(1).has_value();
    return right.frames.size() == 2;
  });
  CHECK_FALSE(taken_too_soon);
  CHECK(right.frames[0].payload == large.storage);
  CHECK(right.frames[1].payload == small.storage);
}
