#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device_pieces.hpp"
#include "tests/runtime/held_peer.hpp"
#include "tests/support/catch.hpp"
#include "transport/shared_memory.hpp"

// Long messages in pieces, one frame at a time: what is right of a peer, and what makes it a lost one.

using namespace rondo;
using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;
using rondo::testing::Combining;
using rondo::testing::Pair;

namespace {

constexpr std::size_t kPiece = DevicePieces::kBytes;
constexpr std::size_t kSlots = DevicePieces::kAhead;
constexpr std::size_t kLong = (kSlots + 1) * kPiece + 100;
/// Under which rank 1 passes memory.
constexpr std::uint64_t kPassedByOne = ~std::uint64_t{1};

FrameHeader frame(FrameKind kind, std::uint32_t id, std::uint32_t number, std::uint64_t bytes = 0) {
  FrameHeader header = Pair::header(kind, id);
  header.number = number;
  header.bytes = bytes;
  return header;
}

struct PiecesPair : Pair {
  void hear(const FrameHeader& header) { peer.deliver(header, {}); }
  void hear_slots(std::uint32_t number) { hear(frame(FrameKind::slots, 0, number)); }
  void hear_taken(std::uint32_t number) { hear(frame(FrameKind::taken, 0, number)); }
  void hear_in_slot(std::uint32_t slot, std::uint32_t id, std::uint64_t bytes, bool last) {
    FrameHeader header = frame(FrameKind::in_slot, id, last ? 1 : 0, bytes);
    header.tag = slot;
    hear(header);
  }
  void hear_piece(std::uint32_t id, std::size_t bytes, bool last, int value = 1) {
    const std::vector<std::byte> payload(bytes, static_cast<std::byte>(value));
    peer.deliver(frame(FrameKind::piece, id, last ? 1 : 0, bytes), payload);
  }
  std::size_t count(FrameKind kind) const {
    return static_cast<std::size_t>(
        std::count_if(link->sent.begin(), link->sent.end(), [&](const auto& header) { return header.kind == kind; }));
  }
  std::size_t count_pieces() const { return count(FrameKind::piece) + count(FrameKind::in_slot); }
  bool lost(const std::string& why) const { return peer.gone() && peer.cause().find(why) != std::string::npos; }
};

/// What rank 0 sends to rank 1, asked for in pieces.
struct Sent {
  explicit Sent(PiecesPair& pair, std::size_t bytes = kLong)
      : payload(bytes, std::byte{5}),
        message(std::in_place, *pair.group, 1, Tag{3}, ElementType::bytes, payload),
        id(pair.link->sent.empty() ? 0 : pair.link->sent.back().id) {}
  static FrameHeader clear(std::uint32_t id) { return frame(FrameKind::cts_pieces, id, 11); }

  std::vector<std::byte> payload;
  std::optional<SendMessage> message;
  std::uint32_t id;
};

/// What rank 0 receives from rank 1, cleared, in the middle of memory that nothing else may touch.
struct Received {
  static constexpr std::size_t kBytes = 1000;

  explicit Received(PiecesPair& pair)
      : memory(3 * kBytes),
        message(std::in_place, *pair.group, 1, Tag{3}, ElementType::bytes, std::span(memory).subspan(kBytes, kBytes)) {
    pair.hear(frame(FrameKind::rts, 1, 0, kBytes));
    id = pair.link->sent.back().number;
  }
  bool untouched_beside() const {
    const auto clean = [](std::byte byte) { return byte == std::byte{}; };
    return std::all_of(memory.begin(), memory.begin() + kBytes, clean) &&
           std::all_of(memory.end() - kBytes, memory.end(), clean);
  }
  std::string error() const {
    try {
      if (message->error()) std::rethrow_exception(message->error());
    } catch (const Error& error) {
      return std::string(to_string(error.code())) + ": " + error.what();
    }
    return "";
  }

  std::vector<std::byte> memory;
  std::optional<ReceiveMessage> message;
  std::uint32_t id = 0;
};

/// Rank 1 passes memory for its slots.
SharedMemory pass_slots(PiecesPair& pair, std::size_t bytes = kSlots * kPiece) {
  SharedMemory memory = SharedMemory::create(bytes);
  pair.peer.passed(Descriptor(::dup(memory.descriptor())), kPassedByOne);
  pair.hear_slots(0);
  return memory;
}

}  // namespace

TEST_CASE("pieces come out of slots, and each is taken", "[runtime][peer][pieces]") {
  PiecesPair pair;
  const SharedMemory slots = pass_slots(pair);
  CHECK(pair.link->sent.back().number == 1);
  const Received received(pair);
  std::fill_n(slots.data() + 2 * kPiece, 600, std::byte{7});
  std::fill_n(slots.data(), 400, std::byte{8});
  pair.hear_in_slot(2, received.id, 600, false);
  CHECK(pair.link->sent.back().kind == FrameKind::taken);
  CHECK(pair.link->sent.back().number == 3);
  CHECK_FALSE(received.message->done());
  pair.hear_in_slot(0, received.id, 400, true);
  CHECK(pair.link->sent.back().number == 1);
  CHECK(received.message->done());
  CHECK(received.error().empty());
  CHECK(received.memory[1000] == std::byte{7});
  CHECK(received.memory[1600] == std::byte{8});
  CHECK(received.untouched_beside());
}

TEST_CASE("a piece in a slot that cannot be makes its sender a lost rank", "[runtime][peer][pieces]") {
  PiecesPair pair;
  std::optional<SharedMemory> slots;
  std::uint32_t slot = 0;
  std::uint64_t bytes = 600;
  SECTION("there are no slots") {}
  SECTION("there is no such slot") {
    slots = pass_slots(pair);
    slot = GENERATE(as<std::uint32_t>(), kSlots, ~std::uint32_t{0});
  }
  SECTION("of no length, or longer than a slot") {
    slots = pass_slots(pair);
    bytes = GENERATE(as<std::uint64_t>(), 0, kPiece + 1, ~std::uint64_t{0});
  }
  const Received received(pair);
  pair.hear_in_slot(slot, received.id, bytes, false);
  CHECK(pair.lost("it spoke of a slot that there is not"));
  CHECK(pair.count(FrameKind::taken) == 0);
  CHECK_THAT(received.error(), ContainsSubstring("it spoke of a slot that there is not"));
  CHECK(received.untouched_beside());
  // What it says after that finds nothing.
  pair.hear_in_slot(slot, received.id, bytes, true);
}

TEST_CASE("a piece of a length that cannot be fails its receive, and is thrown away", "[runtime][peer][pieces]") {
  PiecesPair pair;
  const SharedMemory slots = pass_slots(pair);
  Received received(pair);
  const bool in_slot = GENERATE(true, false);
  const auto hear = [&](std::size_t bytes, bool last) {
    in_slot ? pair.hear_in_slot(0, received.id, bytes, last) : pair.hear_piece(received.id, bytes, last);
  };
  const std::size_t before = GENERATE(0U, 600U);
  if (before > 0) hear(before, false);
  const std::size_t missing = Received::kBytes - before;
  SECTION("longer than what is missing") { hear(missing + 1, GENERATE(true, false)); }
  SECTION("a last one that is too short") { hear(missing - 1, true); }
  SECTION("one that is not the last with all that is missing") { hear(missing, false); }
  CHECK_THAT(received.error(), ContainsSubstring("rank 1 announced 1000 bytes and sent "));
  CHECK(received.error().substr(0, received.error().find(':')) == to_string(Errc::protocol));
  CHECK(received.untouched_beside());
  CHECK(pair.count(FrameKind::taken) == (before > 0 ? 2 : 1));
  // The rest of it, which nobody waits for.
  received.message.reset();
  hear(missing, true);
  CHECK(received.untouched_beside());
  CHECK_FALSE(pair.peer.gone());
}

TEST_CASE("pieces of a message that nobody wants any more are taken", "[runtime][peer][pieces]") {
  PiecesPair pair;
  const SharedMemory slots = pass_slots(pair);
  Received received(pair);
  pair.hear_in_slot(0, received.id, 600, false);
  received.message.reset();
  pair.hear_in_slot(1, received.id, 300, false);
  pair.hear_piece(received.id, 100, true);
  CHECK(pair.count(FrameKind::taken) == 3);
  CHECK_FALSE(pair.peer.gone());
  CHECK(std::count(received.memory.begin(), received.memory.end(), std::byte{1}) == 0);
}

TEST_CASE("what a collective combines does not come in pieces", "[runtime][peer][pieces]") {
  PiecesPair pair;
  int times = 0;
  std::vector<std::byte> into(1000);
  Combining operation(*pair.group, into, times);
  const std::uint32_t id = operation.begin(pair);
  REQUIRE(pair.link->sent.back().kind == FrameKind::cts);
  pair.hear_piece(id, 600, false);
  pair.engine.run_ready();
  CHECK(operation.finished());
  CHECK(operation.error() != nullptr);
  CHECK(times == 0);
  pair.hear_piece(id, 400, true);
}

TEST_CASE("a message is not written by its sender where nobody asked for that", "[runtime][peer][pieces]") {
  PiecesPair pair;
  const Received received(pair);
  pair.peer.written(received.id);
  CHECK(pair.lost("it wrote where it was not to write"));
  CHECK_FALSE(received.error().empty());
}

TEST_CASE("slots that there are not make who speaks of them a lost rank", "[runtime][peer][pieces]") {
  PiecesPair pair;
  std::optional<SharedMemory> slots;
  std::optional<Sent> sent;
  SECTION("none were passed") { pair.hear_slots(0); }
  SECTION("passed twice") {
    slots = pass_slots(pair);
    CHECK_FALSE(pair.peer.gone());
    slots = pass_slots(pair);
  }
  SECTION("none were offered") { pair.hear_slots(GENERATE(1U, 2U, 3U, ~0U)); }
  SECTION("none could be offered") {
    sent.emplace(pair);
    pair.hear(Sent::clear(sent->id));
    CHECK(pair.count(FrameKind::piece) == kSlots);
    pair.hear_slots(GENERATE(1U, 2U));
  }
  SECTION("an answer that is none, or a second one") {
    pair.link->passes = true;
    sent.emplace(pair);
    pair.hear(Sent::clear(sent->id));
    const std::uint32_t first = GENERATE(1U, 2U, 3U);
    if (first < 3) pair.hear_slots(first);
    CHECK_FALSE(pair.peer.gone());
    pair.hear_slots(first);
  }
  CHECK(pair.lost("it spoke of slots that there are not"));
}

TEST_CASE("slots that cannot be mapped, or whose descriptor found no room, are told to be none",
          "[runtime][peer][pieces]") {
  PiecesPair pair;
  SECTION("of another size") { pass_slots(pair, kPiece); }
  SECTION("no room") {
    pair.peer.passed(Descriptor(), kPassedByOne);
    pair.hear_slots(0);
  }
  CHECK_FALSE(pair.peer.gone());
  REQUIRE(pair.link->sent.size() == 1);
  CHECK(pair.link->sent[0].kind == FrameKind::slots);
  CHECK(pair.link->sent[0].number == 2);
}

TEST_CASE("pieces leave a few at a time, in slots if the receiver has mapped them", "[runtime][peer][pieces]") {
  PiecesPair pair;
  pair.link->passes = GENERATE(true, false);
  const bool mapped = pair.link->passes && GENERATE(true, false);
  const FrameKind kind = mapped ? FrameKind::in_slot : FrameKind::piece;
  Sent sent(pair);
  pair.hear(Sent::clear(sent.id));
  if (pair.link->passes) {
    CHECK(pair.link->sent.back().kind == FrameKind::slots);
    pair.hear_slots(mapped ? 1 : 2);
  }
  CHECK(pair.count(kind) == kSlots);
  // The second slot is free first.
  pair.hear_taken(mapped ? 2 : 0);
  CHECK(pair.count(kind) == kSlots + 1);
  if (mapped) CHECK(pair.link->sent.back().tag == 1);
  pair.hear_taken(mapped ? 1 : 0);
  CHECK(pair.count(kind) == kSlots + 2);
  if (mapped) CHECK(pair.link->sent.back().tag == 0);
  CHECK(pair.link->sent.back().number == 1);
  CHECK(pair.link->sent.back().bytes == 100);
  CHECK(sent.message->done());
  CHECK_FALSE(sent.message->error());
}

TEST_CASE("a piece that was not sent cannot be taken", "[runtime][peer][pieces]") {
  PiecesPair pair;
  pair.link->passes = GENERATE(true, false);
  Sent sent(pair);
  SECTION("nothing was sent") { pair.hear_taken(GENERATE(0U, 1U)); }
  SECTION("there is no such slot, or no piece of that kind") {
    pair.hear(Sent::clear(sent.id));
    if (pair.link->passes) pair.hear_slots(1);
    pair.hear_taken(pair.link->passes ? GENERATE(0U, 5U, ~0U) : 1U);
  }
  SECTION("it has not left yet") {
    pair.link->hold();
    pair.hear(Sent::clear(sent.id));
    if (pair.link->passes) pair.hear_slots(1);
    pair.hear_taken(pair.link->passes ? 1 : 0);
  }
  SECTION("it was taken before") {
    pair.hear(Sent::clear(sent.id));
    if (pair.link->passes) pair.hear_slots(1);
    for (std::uint32_t i = 1; i <= kSlots + 2; ++i) {
      pair.hear_taken(pair.link->passes ? (i - 1) % kSlots + 1 : 0);
      CHECK_FALSE(pair.peer.gone());
    }
    pair.hear_taken(pair.link->passes ? 1 : 0);
  }
  CHECK(pair.lost("it took a piece that was not sent"));
  // What comes after that finds nothing, and nothing more leaves.
  sent.message.reset();
  const std::size_t pieces = pair.count_pieces();
  pair.hear_taken(0);
  pair.link->flow();
  CHECK(pair.count_pieces() == pieces);
}

TEST_CASE("what is taken back in the middle leaves its slots to the next message", "[runtime][peer][pieces]") {
  PiecesPair pair;
  pair.link->passes = true;
  std::optional<Sent> first(std::in_place, pair);
  pair.hear(Sent::clear(first->id));
  pair.hear_slots(1);
  pair.link->hold();
  Sent second(pair);
  pair.link->flow();
  second.id = pair.link->sent.back().id;
  pair.link->hold();
  pair.hear_taken(3);  // whose slot is used again, and not sent yet
  pair.hear(Sent::clear(second.id));
  first.reset();
  pair.link->flow();
  const FrameHeader& last = pair.link->sent.back();
  // That one was free at once, the others once they are taken.
  REQUIRE(pair.count(FrameKind::in_slot) == kSlots + 1);
  const auto of_second = std::find_if(pair.link->sent.rbegin(), pair.link->sent.rend(),
                                      [](const auto& header) { return header.kind == FrameKind::in_slot; });
  CHECK(of_second->tag == 2);
  CHECK((last.kind == FrameKind::cancel || last.kind == FrameKind::in_slot));
  for (const std::uint32_t slot : {1U, 2U, 4U}) pair.hear_taken(slot);
  CHECK_FALSE(pair.peer.gone());
  CHECK(pair.count(FrameKind::in_slot) == kSlots + 4);
}

TEST_CASE("an answer to what was not offered makes its sender a lost rank", "[runtime][peer][pieces]") {
  PiecesPair pair;
  pair.link->passes = GENERATE(true, false);
  std::optional<Sent> sent;
  SECTION("pieces of a message that has only one") {
    sent.emplace(pair, GENERATE(1000U, kPiece));
    pair.hear(Sent::clear(sent->id));
  }
  SECTION("of a message that it cannot have heard of") {
    pair.link->hold();
    sent.emplace(pair);
    FrameHeader clear = Sent::clear(1);
    clear.number = GENERATE(11U, 0U);
    clear.bytes = GENERATE(as<std::uint64_t>(), 0, kPiece);
    pair.hear(clear);
  }
  CHECK(pair.lost("it asked for what it had not been offered"));
  CHECK(sent->message->error() != nullptr);
  sent.reset();
  pair.link->flow();
  CHECK(pair.count_pieces() + pair.count(FrameKind::data) == 0);
}
