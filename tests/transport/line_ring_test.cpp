#include "transport/line_ring.hpp"

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/frames.hpp"
#include "transport/shared_memory.hpp"

using namespace rondo::detail;
using rondo::testing::pattern;

namespace {

bool write(RingWriter& writer, const std::vector<std::byte>& bytes) {
  std::byte* const record = writer.reserve(bytes.size());
  if (!record) return false;
  std::memcpy(record, bytes.data(), bytes.size());
  writer.publish(LineRing::Kind::frame, bytes.size());
  return true;
}

}  // namespace

TEST_CASE("records of every length go round the ring whole and in order", "[transport][ring]") {
  const SharedMemory memory = SharedMemory::create(LineRing::bytes(64));
  RingWriter writer(memory.data(), 64);
  RingReader reader(memory.data(), 64);
  // Payload whose every byte could be taken for a mark, if a mark were looked for where none is.
  for (unsigned i = 0; i < 5000; ++i) {
    const std::vector<std::byte> sent(1 + i * 7 % writer.most(), static_cast<std::byte>(0x02));
    REQUIRE_FALSE(reader.ready());
    REQUIRE(write(writer, sent));
    REQUIRE(reader.ready());
    const auto record = reader.front();
    REQUIRE(record.kind == LineRing::Kind::frame);
    REQUIRE(std::vector(record.bytes.begin(), record.bytes.end()) == sent);
    reader.pop();
  }
}

TEST_CASE("a full ring takes no more until the reader has read", "[transport][ring]") {
  const SharedMemory memory = SharedMemory::create(LineRing::bytes(64));
  RingWriter writer(memory.data(), 64);
  RingReader reader(memory.data(), 64);
  unsigned written = 0;
  while (write(writer, pattern(56, written))) ++written;
  CHECK(written == 63);  // a line stays free: the mark behind the last record says that there is none
  for (unsigned i = 0; i < written; ++i) {
    REQUIRE(reader.ready());
    const auto record = reader.front();
    CHECK(std::vector(record.bytes.begin(), record.bytes.end()) == pattern(56, i));
    reader.pop();
  }
  CHECK_FALSE(reader.ready());
  CHECK(write(writer, pattern(writer.most(), 1)));
}

TEST_CASE("a writer and a reader on two threads agree on every byte", "[transport][ring]") {
  const SharedMemory memory = SharedMemory::create(LineRing::bytes(64));
  constexpr unsigned kRecords = 30'000;
  std::thread other([&] {
    RingWriter writer(memory.data(), 64);
    std::minstd_rand random(1);
    for (unsigned i = 0; i < kRecords; ++i) {
      const auto bytes = pattern(1 + random() % writer.most(), i);
      while (!write(writer, bytes)) std::this_thread::yield();
    }
  });
  RingReader reader(memory.data(), 64);
  std::minstd_rand random(1);
  bool right = true;
  for (unsigned i = 0; i < kRecords;) {
    if (!reader.ready()) {
      std::this_thread::yield();
      continue;
    }
    const auto record = reader.front();
    if (record.kind == LineRing::Kind::skip) continue;
    const auto wanted = pattern(1 + random() % (64 / 4 * 64 - 8), i);
    right &= std::vector(record.bytes.begin(), record.bytes.end()) == wanted;
    reader.pop();
    ++i;
  }
  other.join();
  CHECK(right);
}
