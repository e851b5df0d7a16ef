#include "transport/joint_copy.hpp"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/frames.hpp"
#include "tests/support/rounds.hpp"

namespace {

// What happens once a part has been claimed and before it is written. False: it cannot be written.
thread_local std::function<bool()> before_writing;
// The same before it is read.
thread_local std::function<void()> before_reading;

}  // namespace

// Instead of the C library's, for the whole program.
extern "C" ssize_t process_vm_readv(pid_t process, const iovec* here, unsigned long here_count, const iovec* there,
                                    unsigned long there_count, unsigned long flags) noexcept {
  if (before_reading) before_reading();
  return ::syscall(SYS_process_vm_readv, process, here, here_count, there, there_count, flags);
}
extern "C" ssize_t process_vm_writev(pid_t process, const iovec* here, unsigned long here_count, const iovec* there,
                                     unsigned long there_count, unsigned long flags) noexcept {
  if (before_writing && !before_writing()) return -1;
  return ::syscall(SYS_process_vm_writev, process, here, here_count, there, there_count, flags);
}

using namespace rondo::detail;
using rondo::testing::pattern;
using rondo::testing::rounds;

namespace {

constexpr std::size_t kUnit = 4096;
constexpr std::size_t kBytes = 100'001;
constexpr std::ptrdiff_t kLast = 24 * kUnit;  // of its units
const pid_t kSelf = ::getpid();
constexpr pid_t kNobody = -1;

/// A reader and its owner in one process.
struct Pair {
  explicit Pair(std::size_t bytes = kBytes) : payload(pattern(bytes, 3)), into(bytes) { begin(); }
  void begin() { reader = std::make_unique<JointRead>(shared, ++number, address(), into); }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(payload.data()); }
  void help(pid_t process = kSelf) { JointCopy::help(shared, process, reader->request()); }

  JointCopy::Shared shared{};
  std::uint64_t number = 0;
  const std::vector<std::byte> payload;
  std::vector<std::byte> into;
  std::unique_ptr<JointRead> reader;
};

}  // namespace

TEST_CASE("a joint copy is whole, whoever of the two has done it", "[transport][joint_copy]") {
  Pair pair(GENERATE(as<std::size_t>{}, 1, kUnit, kUnit + 1, kBytes, 300 * kUnit + 1));
  SECTION("the reader") {
    CHECK(pair.reader->read(kSelf));
    pair.help();
  }
  SECTION("the owner") {
    pair.help();
    CHECK(pair.into == pair.payload);
    CHECK(pair.reader->read(kNobody));
  }
  SECTION("the reader, as the owner cannot write") {
    pair.help(kNobody);
    CHECK(pair.reader->read(kSelf));
  }
  CHECK(pair.reader->state(kSelf) == JointRead::State::complete);
  CHECK(pair.into == pair.payload);
}

TEST_CASE("who makes a joint copy alone does so in few calls", "[transport][joint_copy]") {
  const auto [units, calls] = GENERATE(std::pair(1, 1), std::pair(5, 2), std::pair(127, 2), std::pair(1000, 4));
  Pair pair(static_cast<std::size_t>(units) * kUnit);
  int reads = 0;
  before_reading = [&] { ++reads; };
  CHECK(pair.reader->read(kSelf));
  before_reading = nullptr;
  CHECK(reads == calls);
}

TEST_CASE("each side makes one call for half of a short joint copy", "[transport][joint_copy]") {
  Pair pair(GENERATE(4 * kUnit + 1, 16 * kUnit, 127 * kUnit));
  int reads = 0;
  int writes = 0;
  before_writing = [&] { return ++writes > 0; };
  before_reading = [&] {
    ++reads;
    pair.help();
  };
  CHECK(pair.reader->read(kSelf));
  before_writing = nullptr;
  before_reading = nullptr;
  CHECK(reads == 1);
  CHECK(writes == 1);
  CHECK(pair.reader->state(kSelf) == JointRead::State::complete);
  CHECK(pair.into == pair.payload);
}

TEST_CASE("what the owner has claimed is waited for, and read where it gives up", "[transport][joint_copy]") {
  Pair pair;
  pair.shared.claims.fetch_add(1);
  REQUIRE(pair.reader->read(kSelf));
  CHECK(pair.reader->state(kSelf) == JointRead::State::awaits_owner);
  CHECK(pair.into != pair.payload);
  SECTION("there it is") {
    std::copy(pair.payload.begin() + kLast, pair.payload.end(), pair.into.begin() + kLast);
    pair.shared.written.fetch_add(1);
    CHECK(pair.reader->state(kNobody) == JointRead::State::complete);
  }
  SECTION("it gives up") {
    pair.shared.written.fetch_or(JointCopy::kGaveUp);
    CHECK(pair.reader->state(kSelf) == JointRead::State::complete);
  }
  CHECK(pair.into == pair.payload);
}

TEST_CASE("a joint copy of what cannot be read fails", "[transport][joint_copy]") {
  Pair pair;
  CHECK_FALSE(pair.reader->read(kNobody));
  pair.begin();
  pair.help(kNobody);
  REQUIRE(pair.reader->read(kSelf));
  CHECK(pair.reader->state(kNobody) == JointRead::State::failed);
}

TEST_CASE("an owner writes nothing of a joint copy that has failed", "[transport][joint_copy]") {
  Pair pair;
  CHECK_FALSE(pair.reader->read(kNobody));
  pair.help();
  CHECK(pair.into == std::vector<std::byte>(kBytes));
}

TEST_CASE("an owner that comes too late writes nothing of another copy", "[transport][joint_copy]") {
  Pair pair;
  const JointCopy::Request stale = pair.reader->request();
  REQUIRE(pair.reader->read(kSelf));
  REQUIRE(pair.reader->state(kSelf) == JointRead::State::complete);
  pair.begin();
  std::fill(pair.into.begin(), pair.into.end(), std::byte{0});
  JointCopy::help(pair.shared, kSelf, stale);
  CHECK(pair.into == std::vector<std::byte>(kBytes));
}

TEST_CASE("what an owner writes too late does not count for the copy that has begun by then",
          "[transport][joint_copy]") {
  const bool can_write = GENERATE(true, false);
  Pair pair;
  const JointCopy::Request stale = pair.reader->request();
  // Of the next copy the owner has claimed as much, and written nothing.
  before_writing = [&] {
    before_writing = nullptr;
    const std::uint64_t claimed = pair.shared.claims.load() & 0xffff;
    pair.begin();
    pair.shared.claims.fetch_add(claimed);
    return can_write;
  };
  JointCopy::help(pair.shared, kSelf, stale);
  REQUIRE(pair.reader->request().number == stale.number + 1);
  std::fill(pair.into.begin(), pair.into.end(), std::byte{0});
  REQUIRE(pair.reader->read(kSelf));
  CHECK(pair.reader->state(kSelf) == JointRead::State::awaits_owner);
  CHECK(pair.into != pair.payload);
}

TEST_CASE("of joint copies one after the other, with both sides at work, each is whole", "[transport][joint_copy]") {
  Pair pair(GENERATE(as<std::size_t>{}, kBytes, 300 * kUnit + 1));
  constexpr auto kCopies = rounds(std::uint64_t{200});
  std::atomic<std::uint64_t> number{0};
  std::thread owner([&, request = pair.reader->request()]() mutable {
    while ((request.number = number) < kCopies) JointCopy::help(pair.shared, kSelf, request);
  });
  while (number < kCopies - 1) {
    std::fill(pair.into.begin(), pair.into.end(), std::byte{0});
    pair.begin();
    number = pair.reader->request().number;
    REQUIRE(pair.reader->read(kSelf));
    while (pair.reader->state(kSelf) == JointRead::State::awaits_owner) {
    }
    CHECK(pair.into == pair.payload);
  }
  number = kCopies;
  owner.join();
}
