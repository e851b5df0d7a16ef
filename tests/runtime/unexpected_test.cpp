#include "runtime/unexpected.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo::detail;

namespace {

/// Owns what it has put into the list.
struct Early {
  UnexpectedMessages messages;
  std::vector<std::unique_ptr<Unexpected>> owned;

  Unexpected& add(FrameHeader::Context context, std::uint32_t number, int source, std::uint32_t tag = 0) {
    Unexpected& message = *owned.emplace_back(std::make_unique<Unexpected>());
    message.header.context = context;
    message.header.number = number;
    message.header.tag = tag;
    message.source = source;
    messages.push(message);
    return message;
  }
};

bool any(const Unexpected&) { return true; }
auto numbered(std::uint32_t number) {
  return [number](const Unexpected& message) { return message.header.number == number; };
}
auto from(int source) {
  return [source](const Unexpected& message) { return message.source == source; };
}

}  // namespace

TEST_CASE("messages of one key are found in the order in which they came", "[runtime][unexpected]") {
  Early early;
  Unexpected& first = early.add(FrameHeader::collective, 7, 1);
  Unexpected& other = early.add(FrameHeader::collective, 7 + 16, 2);  // in the same bucket
  Unexpected& second = early.add(FrameHeader::collective, 7, 0);
  CHECK(early.messages.find(7, numbered(7)) == &first);
  CHECK(early.messages.find(7, from(0)) == &second);
  CHECK(early.messages.find(23, numbered(23)) == &other);
  CHECK(early.messages.find(8, any) == nullptr);
  early.messages.remove(first);
  CHECK(early.messages.find(7, numbered(7)) == &second);
  early.messages.remove(second);
  CHECK(early.messages.find(7, numbered(7)) == nullptr);
  CHECK(early.messages.head() == &other);
}

TEST_CASE("point-to-point messages are found by their source, and by none in the order of all",
          "[runtime][unexpected]") {
  Early early;
  Unexpected& of_two = early.add(FrameHeader::point_to_point, 0, 2, 5);
  Unexpected& of_one = early.add(FrameHeader::point_to_point, 0, 1, 5);
  CHECK(early.messages.find(1, from(1)) == &of_one);
  CHECK(early.messages.find([](const Unexpected& message) { return message.header.tag == 5; }) == &of_two);
  CHECK(early.messages.find(any) == &of_two);
  early.messages.remove(of_two);
  CHECK(early.messages.find(any) == &of_one);
}

TEST_CASE("who is thousands of messages behind looks at a few of them", "[runtime][unexpected]") {
  constexpr std::uint32_t kBehind = 10'000;
  Early early;
  for (int source = 1; source < 4; ++source) {
    for (std::uint32_t number = 0; number < kBehind; ++number) early.add(FrameHeader::collective, number, source);
  }
  std::uint32_t looks = 0;
  for (std::uint32_t number = 0; number < kBehind; ++number) {
    for (int source = 1; source < 4; ++source) {
      Unexpected* const found = early.messages.find(number, [&](const Unexpected& message) {
        ++looks;
        return message.header.number == number && message.source == source;
      });
      REQUIRE(found == early.owned[static_cast<std::uint32_t>(source - 1) * kBehind + number].get());
      early.messages.remove(*found);
    }
  }
  CHECK(early.messages.empty());
  CHECK(looks < 3 * kBehind * 10);
}

TEST_CASE("a payload's memory is kept for the next one", "[runtime][unexpected]") {
  Payload payload;
  payload.resize(1000);
  const std::byte* const memory = payload.data();
  const std::vector<std::byte> bytes(500, std::byte{7});
  payload.assign(bytes);
  CHECK(payload.data() == memory);
  CHECK(payload.capacity() == 1000);
  const std::span<const std::byte> view = payload;
  CHECK(std::vector<std::byte>(view.begin(), view.end()) == bytes);
  payload.assign({});
  CHECK(std::span<const std::byte>(payload).empty());
}
