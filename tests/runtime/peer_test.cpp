#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/runtime/held_peer.hpp"
#include "tests/support/catch.hpp"

// What a peer makes of frames, one at a time, and what it sends.

using namespace rondo;
using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::Four;
using rondo::testing::four;
using rondo::testing::Pair;
using rondo::testing::Receive;

TEST_CASE("a message that was announced keeps its turn until it comes", "[runtime][peer]") {
  Pair pair;
  std::optional<Receive> first, second;
  const bool posted = GENERATE(true, false);
  const auto post = [&] {
    first.emplace(*pair.group);
    second.emplace(*pair.group);
  };
  if (posted) post();
  pair.announce(1);
  pair.eager(four(2));
  if (!posted) post();
  CHECK_FALSE(first->message.done());
  CHECK(second->message.done());
  CHECK(second->place == four(2));
  pair.late(1, four(1));
  CHECK(first->message.done());
  CHECK(first->place == four(1));
  CHECK(pair.free_again(2));
}

TEST_CASE("a message that came late before anybody wanted it is received", "[runtime][peer]") {
  Pair pair;
  pair.announce(1);
  pair.late(1, four(1));
  const Receive receive(*pair.group);
  CHECK(receive.message.done());
  CHECK(receive.place == four(1));
  CHECK(pair.free_again(1));
}

TEST_CASE("a message that is taken back after it was announced is no message, or ends its receive", "[runtime][peer]") {
  Pair pair;
  SECTION("nobody has asked for it") {
    pair.announce(1);
    pair.recall(1);
    pair.eager(four(2));
    const Receive receive(*pair.group);
    CHECK(receive.place == four(2));
    CHECK(pair.free_again(2));
  }
  SECTION("its communicator is not there yet") {
    pair.announce(1, 8);
    pair.recall(1);
    const Group& late = pair.engine.make_group(8, {0, 1});
    CHECK_FALSE(late.has_unexpected());
    CHECK(pair.free_again(1));
  }
  SECTION("its receive was there") {
    const Receive receive(*pair.group);
    pair.announce(1);
    pair.recall(1);
    CHECK_THAT(receive.error(), ContainsSubstring("recv: from rank 1 with tag 3: the sender gave the message up"));
    CHECK(pair.free_again(1));
  }
  SECTION("its receive came before it") {
    pair.announce(1);
    const Receive receive(*pair.group);
    pair.recall(1);
    CHECK_THAT(receive.error(), ContainsSubstring("the sender gave the message up"));
    CHECK(pair.free_again(1));
    CHECK_FALSE(pair.group->has_unexpected());
  }
}

TEST_CASE("a message that nobody wants any more when it comes late is thrown away", "[runtime][peer]") {
  Pair pair;
  SECTION("the receive was taken back") {
    auto receive = std::make_unique<Receive>(*pair.group);
    pair.announce(1);
    receive.reset();
    pair.late(1, four(1));
  }
  SECTION("the communicator was closed") {
    pair.announce(1);
    pair.engine.close_group(*pair.group);
    pair.late(1, four(1));
  }
  CHECK(pair.free_again(1));
  CHECK_FALSE(pair.peer.gone());
}

TEST_CASE("an unexpected message of a communicator that is closed before it is whole is thrown away",
          "[runtime][peer]") {
  Pair pair;
  const FrameHeader header = Pair::header(FrameKind::eager, 0);
  REQUIRE(pair.peer.accept(header) != nullptr);
  pair.engine.close_group(*pair.group);
  CHECK(pair.link->discarded);
  pair.peer.arrived(header);
  CHECK(pair.free_again(1));
}

TEST_CASE("who offers a long message in a communicator that is closed here is told that nobody will receive it",
          "[runtime][peer]") {
  Pair pair;
  const FrameHeader rts = Pair::header(FrameKind::rts, 9);
  const bool before = GENERATE(true, false);
  const bool unwinding = GENERATE(true, false);
  const bool last = GENERATE(true, false);
  if (!last) pair.engine.make_group(8, {0, 1});
  // Something failed once, elsewhere.
  pair.engine.peer_lost(pair.engine.peer(2), "the test says so");
  if (before) pair.peer.deliver(rts, {});
  CHECK(pair.link->sent.empty());
  pair.close(unwinding);
  if (!before) pair.peer.deliver(rts, {});
  // An exception that ends this rank is a better cause, and others hear of it.
  if (last && unwinding) {
    CHECK(pair.link->sent.empty());
    return;
  }
  REQUIRE(pair.link->sent.size() == 1);
  const FrameHeader& refusal = pair.link->sent[0];
  CHECK(refusal.kind == FrameKind::unwanted);
  CHECK(refusal.id == 9);
}

TEST_CASE("who offers a long message in a communicator that failed before it was closed here hears of that alone",
          "[runtime][peer]") {
  Pair pair;
  const FrameHeader rts = Pair::header(FrameKind::rts, 9);
  const bool before = GENERATE(true, false);
  if (before) pair.peer.deliver(rts, {});
  pair.group->poison(Error(Errc::peer_failed, "the test says so", {}));
  pair.close(false);
  if (!before) pair.peer.deliver(rts, {});
  REQUIRE(pair.link->sent.size() == 1);
  const FrameHeader& answer = pair.link->sent[0];
  CHECK(answer.kind == FrameKind::satisfied);
  CHECK(answer.id == 9);
}

TEST_CASE("whether a message that is asked for was given up in a failure is a matter of its communicator",
          "[runtime][peer]") {
  Pair pair;
  pair.engine.peer_lost(pair.engine.peer(2), "the test says so");
  FrameHeader clear = Pair::header(FrameKind::cts, 9);
  clear.number = 5;
  const bool failed = GENERATE(true, false);
  const bool closed = GENERATE(true, false);
  if (failed) pair.group->poison(Error(Errc::peer_failed, "the test says so", {}));
  if (closed) pair.close(false);
  pair.peer.deliver(clear, {});
  REQUIRE(pair.link->sent.size() == 1);
  CHECK(pair.link->sent[0].kind == FrameKind::cancel);
  CHECK(pair.link->sent[0].number == (failed ? 1 : 0));
}

TEST_CASE("a long message that nobody will receive ends with an error, one that is not needed without",
          "[runtime][peer]") {
  Pair pair;
  const std::vector<std::byte> payload(1000);
  const SendMessage message(*pair.group, 1, Tag{3}, ElementType::bytes, payload);
  REQUIRE(pair.link->sent.size() == 1);
  const FrameKind kind = GENERATE(FrameKind::satisfied, FrameKind::unwanted);
  FrameHeader answer = Pair::header(kind, pair.link->sent[0].id);
  pair.peer.deliver(answer, {});
  REQUIRE(message.done());
  CHECK_FALSE(pair.peer.gone());
  CHECK((message.error() != nullptr) == (kind == FrameKind::unwanted));
  if (!message.error()) return;
  CHECK_THROWS_WITH(std::rethrow_exception(message.error()),
                    Catch::Matchers::ContainsSubstring(
                        "send: 1000 bytes to rank 1 with tag 3: rank 1 has destroyed the communicator"));
}

namespace {

template <typename Frame>
void hear_of_device(Pair& pair, const Frame& frame) {
  const auto bytes = encode_device_frame(frame);
  FrameHeader header = Pair::header(FrameKind::device, 0);
  header.bytes = bytes.size();
  pair.peer.deliver(header, bytes);
}

}  // namespace

TEST_CASE("who asks of more copies of devices than it can wait for is a lost rank", "[runtime][peer]") {
  Pair pair;
  for (std::uint32_t i = 0; i < DeviceMessages::kMostAsks; ++i) hear_of_device(pair, DeviceAsk{i});
  CHECK_FALSE(pair.peer.gone());
  const bool one_less = GENERATE(true, false);
  if (one_less) hear_of_device(pair, DeviceAskNoMore{7});
  hear_of_device(pair, DeviceAsk{DeviceMessages::kMostAsks});
  CHECK(pair.peer.gone() == !one_less);
  if (!one_less) CHECK(pair.peer.cause() == "it asked of more than 4096 copies at a time");
}

TEST_CASE("who tells where to write what it was not offered is a lost rank", "[runtime][peer]") {
  Pair pair;
  hear_of_device(pair, DeviceWrite{.place = {}, .message = 5});
  CHECK(pair.peer.gone());
  CHECK(pair.peer.cause() == "it asked for what it had not been offered");
}

TEST_CASE("a payload that was not announced makes its sender a dead rank", "[runtime][peer]") {
  Pair pair;
  pair.announce(1);
  SECTION("under no such id") { pair.late(2, four(1)); }
  SECTION("of another length") {
    FrameHeader header = Pair::header(FrameKind::late, 1);
    header.bytes = 3;
    const Four payload = four(1);
    pair.peer.deliver(header, std::span(payload).first(3));
  }
  SECTION("taken back") { pair.recall(2); }
  pair.clock.time += 2 * pair.engine.settings().verdict_wait;
  pair.engine.tick(pair.clock.now());
  CHECK(pair.group->poisoned());
}

TEST_CASE("what a sender takes back before its payload has left is told to the receiver, which waits for it",
          "[runtime][peer]") {
  Pair pair;
  std::vector<std::byte> payload(1000);
  std::optional<SendMessage> message(std::in_place, *pair.group, 1, Tag{3}, ElementType::bytes, payload);
  REQUIRE(pair.link->sent.size() == 1);
  pair.link->hold();
  FrameHeader clear = Pair::header(FrameKind::cts, pair.link->sent[0].id);
  clear.number = 11;
  pair.peer.deliver(clear, {});
  message.reset();
  pair.link->flow();
  REQUIRE(pair.link->sent.size() == 2);
  CHECK(pair.link->sent[1].kind == FrameKind::cancel);
  CHECK(pair.link->sent[1].id == 11);
}

TEST_CASE("a short message that is taken back before it has left takes no memory of the receiver's",
          "[runtime][peer]") {
  Pair pair;
  pair.link->hold();
  const Four payload{};
  std::optional<SendMessage> message(std::in_place, *pair.group, 1, Tag{3}, ElementType::bytes, payload);
  CHECK(pair.peer.credit() < pair.peer.window());
  message.reset();
  CHECK(pair.peer.credit() == pair.peer.window());
  pair.link->flow();
  CHECK(pair.link->sent.empty());
}

TEST_CASE("a long message in a buffer that the receiver maps is fetched there, unless it was taken back",
          "[runtime][peer]") {
  constexpr std::size_t kPart = 4096;
  Pair pair;
  const auto memory = std::make_shared<SharedMemory>(SharedMemory::create(2 * kPart));
  SharedRegions& regions = pair.group->commons().regions();
  regions.add(regions.next(), memory, kPart);
  std::vector<std::byte> received(1000);
  ReceiveMessage receive(*pair.group, 1, Tag{3}, ElementType::bytes, received);
  std::fill(memory->data() + kPart, memory->data() + 2 * kPart, std::byte{9});

  FrameHeader rts = Pair::header(FrameKind::rts, 1);
  rts.bytes = received.size();
  rts.fingerprint = {8, pair.link->ticket, 1, 100};  // of an address that nobody could read
  bool there = false;
  SECTION("it is there") { there = true; }
  SECTION("it was taken back") { pair.link->ticket = 6; }
  SECTION("there is no such region") { rts.fingerprint[2] = 2; }
  SECTION("it would end behind the sender's part") { rts.fingerprint[3] = kPart - received.size() + 1; }
  SECTION("it would begin behind it") { rts.fingerprint[3] = ~std::uint64_t{0}; }
  pair.peer.deliver(rts, {});
  CHECK(receive.done() == there);
  if (there) CHECK(received == std::vector<std::byte>(1000, std::byte{9}));
  REQUIRE(pair.link->sent.size() == 1);
  CHECK(pair.link->sent[0].kind == (there ? FrameKind::satisfied : FrameKind::cts));
}

TEST_CASE("a link knows while long messages that were asked for are on their way", "[runtime][peer]") {
  Pair pair;
  const Receive first(*pair.group), second(*pair.group);
  pair.peer.deliver(Pair::header(FrameKind::rts, 1), {});
  pair.peer.deliver(Pair::header(FrameKind::rts, 2), {});
  CHECK(pair.link->awaits_payload);
  REQUIRE(pair.link->sent.size() == 2);
  pair.peer.deliver(Pair::header(FrameKind::data, pair.link->sent[0].number), four(1));
  CHECK(first.message.done());
  CHECK(pair.link->awaits_payload);
  pair.peer.deliver(Pair::header(FrameKind::data, pair.link->sent[1].number), four(2));
  CHECK(second.message.done());
  CHECK_FALSE(pair.link->awaits_payload);
}

TEST_CASE("a link awaits nothing more of a long message that its sender gives up", "[runtime][peer]") {
  Pair pair;
  std::optional<Receive> receive(std::in_place, *pair.group);
  pair.peer.deliver(Pair::header(FrameKind::rts, 1), {});
  REQUIRE(pair.link->awaits_payload);
  if (GENERATE(true, false)) receive.reset();  // taken back
  FrameHeader cancel = Pair::header(FrameKind::cancel, pair.link->sent[0].number);
  cancel.bytes = 0;
  pair.peer.deliver(cancel, {});
  CHECK_FALSE(pair.link->awaits_payload);
}

TEST_CASE("a long message of which the sender writes a part is there when that is", "[runtime][peer]") {
  Pair pair;
  std::vector<std::byte> received(1000);
  std::optional<ReceiveMessage> receive(std::in_place, *pair.group, 1, Tag{3}, ElementType::bytes, received);
  FrameHeader rts = Pair::header(FrameKind::rts, 1);
  rts.bytes = received.size();
  rts.fingerprint = {8, pair.link->ticket, 0, 0};
  pair.link->pulls = Link::Pulled::not_yet;
  pair.peer.deliver(rts, {});
  CHECK(pair.peer.poll() == 0);
  CHECK_FALSE(receive->done());
  CHECK(pair.peer.awaited());
  CHECK(pair.link->sent.empty());

  pair.link->pulls = Link::Pulled::yes;
  bool there = true;
  SECTION("it is there") { CHECK(pair.peer.poll() == 1); }
  SECTION("it was taken back") {
    pair.link->ticket = 6;
    there = false;
    CHECK(pair.peer.poll() == 1);
  }
  SECTION("it cannot be read") {
    pair.link->pulls = Link::Pulled::no;
    there = false;
    CHECK(pair.peer.poll() == 1);
  }
  SECTION("nobody wants it any more") { receive.reset(); }
  if (receive) CHECK(receive->done() == there);
  CHECK(pair.link->gave_up == !receive);
  CHECK(pair.peer.poll() == 0);
  REQUIRE(pair.link->sent.size() == 1);
  CHECK(pair.link->sent[0].kind == (there ? FrameKind::satisfied : FrameKind::cts));
}

TEST_CASE("the sender of a long message is asked for a part of it, unless it has one to read itself",
          "[runtime][peer]") {
  Pair pair;
  const std::vector<std::byte> payload(100'000);
  std::optional<SendMessage> offered;
  const bool both = GENERATE(false, true);
  if (both) offered.emplace(*pair.group, 1, Tag{4}, ElementType::bytes, payload);
  std::vector<std::byte> received(1000);
  ReceiveMessage receive(*pair.group, 1, Tag{3}, ElementType::bytes, received);
  FrameHeader rts = Pair::header(FrameKind::rts, 1);
  rts.bytes = received.size();
  rts.fingerprint = {8, pair.link->ticket, 0, 0};
  pair.link->pulls = Link::Pulled::yes;
  pair.peer.deliver(rts, {});
  CHECK(pair.link->pulled_jointly == !both);
}

TEST_CASE("a long message says where among the buffers lies that all ranks map", "[runtime][peer]") {
  constexpr std::size_t kPart = 4096;
  Pair pair;
  const auto memory = std::make_shared<SharedMemory>(SharedMemory::create(2 * kPart));
  SharedRegions& regions = pair.group->commons().regions();
  regions.add(regions.next(), memory, kPart);
  const std::span<const std::byte> payload(memory->data() + 40, 1000);
  const SendMessage message(*pair.group, 1, Tag{3}, ElementType::bytes, payload);
  REQUIRE(pair.link->sent.size() == 1);
  CHECK(pair.link->sent[0].kind == FrameKind::rts);
  CHECK(pair.link->sent[0].fingerprint ==
        std::array<std::uint64_t, 4>{reinterpret_cast<std::uint64_t>(payload.data()), 5, 1, 40});
}
