#include "runtime/notice.hpp"

#include <cstring>
#include <random>

#include "tests/support/catch.hpp"

using namespace rondo::detail;
using Catch::Matchers::ContainsSubstring;
using rondo::Errc;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

template <typename T>
T round_trip(const T& message) {
  ControlReader reader(1 << 20);
  reader.feed(bytes_of(encode(message)));
  auto decoded = reader.next();
  REQUIRE(decoded);
  REQUIRE(std::holds_alternative<T>(*decoded));
  CHECK_FALSE(reader.next());
  return std::get<T>(*decoded);
}

Notice sample() {
  Notice notice;
  notice.kind = Notice::Kind::stalled;
  notice.rank = 3;
  notice.communicator = 0x1122334455667788;
  notice.number = 4711;
  notice.code = Errc::timed_out;
  notice.call.collective = rondo::Collective::all_reduce;
  notice.call.count = 1024;
  notice.text = "why";
  return notice;
}

}  // namespace

TEST_CASE("every control message survives the wire", "[runtime][notice]") {
  CHECK(round_trip(sample()) == sample());
  CHECK(round_trip(Join{"unix:@x tcp:1", 7}).addresses == "unix:@x tcp:1");
  CHECK(round_trip(Table{{"a", "", "c"}}).addresses == std::vector<std::string>{"a", "", "c"});
  Welcome welcome{JobKey::random(), "job", 2, 1, 4};
  const Welcome decoded = round_trip(welcome);
  CHECK(decoded.key.bytes == welcome.key.bytes);
  CHECK(decoded.key.present);
  CHECK(decoded.job_id == "job");
  CHECK(decoded.attempt == 2);
  CHECK(decoded.rank == 1);
  CHECK(decoded.size == 4);
}

TEST_CASE("a launcher of another version is named", "[runtime][notice]") {
  std::string message = encode(Welcome{});
  message[5] = 9;  // behind the message's length and its kind
  ControlReader reader;
  reader.feed(bytes_of(message));
  CHECK_THROWS_WITH(reader.next(),
                    ContainsSubstring("the launcher speaks version 9, wanted " + std::to_string(Handshake::kVersion)));
}

TEST_CASE("messages come out whole, however the stream is cut", "[runtime][notice]") {
  const std::string stream = encode(sample()) + encode(Join{"a", 0}) + encode(sample());
  ControlReader reader;
  int whole = 0;
  for (const char c : stream) {
    reader.feed(bytes_of(std::string(1, c)));
    while (reader.next()) ++whole;
  }
  CHECK(whole == 3);
}

TEST_CASE("a text that is too long is cut, not refused", "[runtime][notice]") {
  Notice notice = sample();
  notice.text.assign(100'000, 'x');
  CHECK(round_trip(notice).text.size() == ControlReader::kMaxText);
}

TEST_CASE("a length over the limit is refused before anything is kept for it", "[runtime][notice]") {
  ControlReader reader;
  reader.feed(bytes_of(std::string("\xff\xff\xff\xff", 4)));
  CHECK_THROWS_WITH(reader.next(), ContainsSubstring("got a length of 4294967295 bytes"));
}

TEST_CASE("lengths within a message are checked against it", "[runtime][notice]") {
  std::string message = encode(Join{"abc", 0});
  message[5] = 100;  // the text's length, behind the message's length and its kind
  ControlReader reader;
  reader.feed(bytes_of(message));
  CHECK_THROWS_WITH(reader.next(), ContainsSubstring("wanted 100"));

  std::string table = encode(Table{{"a"}});
  std::memset(table.data() + 5, 0xff, 4);  // the number of texts
  ControlReader other;
  other.feed(bytes_of(table));
  CHECK_THROWS_AS(other.next(), rondo::Error);
}

TEST_CASE("garbage is an error or an incomplete message, never more", "[runtime][notice]") {
  std::mt19937 random(4711);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = encode(sample());
    for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    ControlReader reader;
    reader.feed(bytes_of(bytes));
    try {
      while (const auto message = reader.next()) {
        if (const auto* notice = std::get_if<Notice>(&*message)) (void)to_string(notice->call);
      }
    } catch (const rondo::Error& error) {
      const bool expected = error.code() == Errc::protocol || error.code() == Errc::authentication;
      if (!expected) FAIL("another error than protocol: " << error.what());
    }
  }
  SUCCEED();
}
