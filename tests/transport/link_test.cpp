// One suite for every Link, with link_at_once_test.cpp; what only one of them has stands in its own test.

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/every_link.hpp"
#include "tests/support/frames.hpp"
#include "tests/support/skipped.hpp"

using namespace rondo::detail;
using namespace rondo::testing;

TEST_CASE("a link carries frames in order, whole, both ways", "[transport][link]") {
  EVERY_LINK;
  std::vector<std::unique_ptr<TestFrame>> there, back;
  const std::size_t sizes[] = {0, 1, 7, 63, 64, 65, 1000, 8192, 8193, 100'000};
  for (unsigned i = 0; i < std::size(sizes); ++i) {
    there.push_back(std::make_unique<TestFrame>(i, pattern(sizes[i], i)));
    back.push_back(std::make_unique<TestFrame>(100 + i, pattern(sizes[i], 100 + i)));
    ends.first->send(*there.back());
    ends.second->send(*back.back());
  }
  run(ends, left, right, [&] { return left.frames.size() == there.size() && right.frames.size() == there.size(); });
  for (std::size_t i = 0; i < there.size(); ++i) {
    CHECK(right.frames[i].header.tag == i);
    CHECK(right.frames[i].payload == there[i]->storage);
    CHECK(left.frames[i].header.tag == 100 + i);
    CHECK(left.frames[i].payload == back[i]->storage);
    CHECK(there[i]->sent == 1);
  }
  CHECK(ends.first->flushed());
  CHECK(left.closed_count + right.closed_count == 0);
}

TEST_CASE("a huge frame arrives whole", "[transport][link]") {
  EVERY_LINK;
  TestFrame frame(1, pattern(std::size_t{32} << 20, 3));
  ends.first->send(frame);
  run(ends, left, right, [&] { return right.frames.size() == 1; });
  CHECK(right.frames[0].payload == frame.storage);
  CHECK(frame.sent == 1);
}

TEST_CASE("many small frames arrive in order", "[transport][link]") {
  EVERY_LINK;
  constexpr unsigned kFrames = 20'000;
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (unsigned i = 0; i < kFrames; ++i) {
    frames.push_back(std::make_unique<TestFrame>(i, pattern(i % 40, i)));
    ends.first->send(*frames.back());
  }
  run(ends, left, right, [&] { return right.frames.size() == kFrames; });
  bool right_order = true;
  for (unsigned i = 0; i < kFrames; ++i) {
    right_order &= right.frames[i].header.tag == i && right.frames[i].payload == frames[i]->storage;
  }
  CHECK(right_order);
}

TEST_CASE("a reader that does not read holds the sender back and loses nothing", "[transport][link]") {
  EVERY_LINK;
  std::vector<std::unique_ptr<TestFrame>> frames;
  std::size_t sent = 0;
  // Far more than any socket buffer: some frame must stay with the sender.
  for (unsigned i = 0; i < 64; ++i) {
    frames.push_back(std::make_unique<TestFrame>(i, pattern(std::size_t{1} << 20, i)));
    ends.first->send(*frames.back());
    ends.first->poll(left);
  }
  for (const auto& frame : frames) sent += static_cast<std::size_t>(frame->sent);
  CHECK(sent < frames.size());
  CHECK_FALSE(ends.first->flushed());
  run(ends, left, right, [&] { return right.frames.size() == frames.size(); });
  for (unsigned i = 0; i < frames.size(); ++i) CHECK(right.frames[i].payload == frames[i]->storage);
}

TEST_CASE("the end of a peer is seen once, after everything that it sent", "[transport][link]") {
  EVERY_LINK;
  TestFrame small(1, pattern(10, 1));
  TestFrame large(2, pattern(200'000, 2));
  ends.first->send(small);
  ends.first->send(large);
  run(ends, left, right, [&] { return large.sent == 1; });
  ends.first.reset();
  run(ends, left, right, [&] { return right.closed_count > 0; });
  REQUIRE(right.frames.size() == 2);
  CHECK(right.frames[1].payload == large.storage);
  for (int i = 0; i < 10; ++i) ends.second->poll(right);
  CHECK(right.closed_count == 1);
  CHECK_FALSE(right.cause.empty());
  TestFrame late(3, pattern(10, 3));
  ends.second->send(late);  // swallowed, without harm
  ends.second->poll(right);
  CHECK(right.closed_count == 1);
}

TEST_CASE("a frame taken back leaves the stream whole", "[transport][link]") {
  EVERY_LINK;
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (unsigned i = 0; i < 32; ++i) {
    frames.push_back(std::make_unique<TestFrame>(i, pattern(std::size_t{1} << 20, i)));
    ends.first->send(*frames.back());
  }
  // Take back everything that is not out; at most one of them has begun, and must still arrive whole.
  std::size_t out = 0;
  for (auto& frame : frames) {
    if (frame->sent == 1) {
      ++out;
      continue;
    }
    ends.first->release(*frame);
    std::fill(frame->storage.begin(), frame->storage.end(), std::byte{0xee});
  }
  TestFrame last(99, pattern(100, 99));
  ends.first->send(last);
  run(ends, left, right, [&] { return !right.frames.empty() && right.frames.back().header.tag == 99; });
  CHECK(right.frames.size() - 1 >= out);
  CHECK(right.frames.size() - 1 <= out + 1);
  for (const auto& frame : right.frames) CHECK(frame.payload == pattern(frame.payload.size(), frame.header.tag));
}

TEST_CASE("a payload that nobody wants is thrown away and the next frame arrives", "[transport][link]") {
  EVERY_LINK;
  TestFrame unwanted(1, pattern(500'000, 1));
  TestFrame wanted(2, pattern(50, 2));
  right.refuse = 1;
  ends.first->send(unwanted);
  ends.first->send(wanted);
  run(ends, left, right, [&] { return !right.frames.empty() && right.frames.back().header.tag == 2; });
  CHECK(right.frames.back().payload == wanted.storage);
}

TEST_CASE("the payload that a sink has no memory for is thrown away and the next frame arrives",
          "[transport][socket_link]") {
  const std::string kind = GENERATE("tcp over IPv4", "unix", "unix, header-sized spill");
  CAPTURE(kind);
  Ends ends = make(kind);
  Recorder left, right;
  right.throw_at = 2;
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (unsigned tag = 1; tag <= 3; ++tag) {
    frames.push_back(std::make_unique<TestFrame>(tag, pattern(500'000, tag)));
    ends.first->send(*frames.back());
  }
  int thrown = 0;
  while (right.frames.size() < 3 && right.closed_count == 0) {
    ends.first->poll(left);
    try {
      ends.second->poll(right);
    } catch (const std::bad_alloc&) {
      ++thrown;
    }
  }
  CHECK(thrown == 1);
  REQUIRE(right.frames.size() == 3);
  CHECK(right.frames[0].payload == frames[0]->storage);
  CHECK(right.frames[2].payload == frames[2]->storage);
}

TEST_CASE("a long payload that nobody expects waits in the socket for one poll", "[transport][socket_link]") {
  const std::string kind = GENERATE("tcp over IPv4", "unix", "unix, header-sized spill");
  CAPTURE(kind);
  Ends ends = make(kind);
  Recorder right;
  TestFrame frame(1, pattern(50'000, 1));
  ends.first->send(frame);
  REQUIRE(frame.sent == 1);
  right.expecting = false;
  while (ends.second->poll(right) == 0) continue;
  CHECK(right.landing.empty());
  REQUIRE(right.frames.empty());
  for (int polls = 0; right.frames.empty() && polls < 2; ++polls) {
    CHECK(ends.second->poll(right) > 0);
    CHECK((!right.landing.empty() || !right.frames.empty()));
  }
  REQUIRE(right.frames.size() == 1);
  CHECK(right.frames[0].payload == frame.storage);
}

// What the system does for a TCP connection.
bool set(const Link& link, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  if (::getsockopt(link.descriptor(), IPPROTO_TCP, option, &value, &length) != 0) throw std::runtime_error("no option");
  return value != 0;
}

TEST_CASE("short frames with nothing coming back go many to a packet, and all arrive", "[transport][socket_link]") {
  Ends ends = tcp4_pair();
  Recorder left, right;
  constexpr unsigned kFrames = 1000;
  std::vector<std::unique_ptr<TestFrame>> frames;
  for (unsigned i = 0; i < kFrames; ++i) {
    frames.push_back(std::make_unique<TestFrame>(i, pattern(8, i)));
    ends.first->send(*frames.back());
    CHECK(frames.back()->sent == 1);
  }
  run(ends, left, right, [&] { return right.frames.size() == kFrames; });
  for (unsigned i = 0; i < kFrames; ++i) {
    CHECK(right.frames[i].header.tag == i);
    CHECK(right.frames[i].payload == frames[i]->storage);
  }
  tcp_info info{};
  socklen_t length = sizeof info;
  REQUIRE(::getsockopt(ends.first->descriptor(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
  CHECK(info.tcpi_segs_out < kFrames / 2);
}

TEST_CASE("no frame is kept back after a long one or an answer", "[transport][socket_link]") {
  Ends ends = tcp4_pair();
  Recorder left, right;
  const auto at_once = [&] { return set(*ends.first, TCP_NODELAY); };
  std::vector<std::unique_ptr<TestFrame>> frames;
  const auto send = [&](Link& link, std::size_t bytes) {
    frames.push_back(std::make_unique<TestFrame>(1, pattern(bytes, 1)));
    link.send(*frames.back());
  };
  const auto send_run = [&](int length) {
    for (int i = 0; i < length; ++i) send(*ends.first, 8);
  };
  send_run(7);
  CHECK(at_once());
  send_run(1);
  CHECK_FALSE(at_once());
  SECTION("a long one") {
    send(*ends.first, 20'000);
    CHECK(at_once());
  }
  SECTION("an answer") {
    send(*ends.second, 8);
    run(ends, left, right, [&] { return left.frames.size() == 1; });
    CHECK(at_once());
  }
  send_run(7);
  CHECK(at_once());
}

TEST_CASE("who awaits a long payload sends in turns with it, who does not as much as there is room for",
          "[transport][socket_link]") {
  const std::string kind = GENERATE("tcp over IPv4", "unix");
  CAPTURE(kind);
  Ends ends = make(kind);
  Recorder left, right;
  constexpr std::size_t kLong = std::size_t{8} << 20;
  const auto at_once = [&] {
    TestFrame there(1, pattern(kLong, 1));
    TestFrame back(2, pattern(kLong, 2));
    left.frames.clear();
    right.frames.clear();
    ends.first->send(there);
    const std::size_t written = there.written;
    ends.second->send(back);
    run(ends, left, right, [&] { return right.frames.size() == 1 && left.frames.size() == 1; });
    CHECK(right.frames[0].payload == there.storage);
    CHECK(left.frames[0].payload == back.storage);
    return written;
  };
  at_once();  // the system learns how much to keep for TCP
  if (at_once() <= SocketLink::kTurn) return rondo::testing::skipped("the system's buffers hold less than a turn");
  ends.first->await_payload(true);
  CHECK(at_once() == SocketLink::kTurn);
  ends.first->await_payload(false);
  CHECK(at_once() > SocketLink::kTurn);
}

TEST_CASE("a turn ends within a long frame, not between short ones", "[transport][socket_link]") {
  Ends ends = make(GENERATE("tcp over IPv4", "unix"));
  Recorder left, right;
  ends.first->await_payload(true);
  TestFrame whole(1, pattern(SocketLink::kTurn - sizeof(FrameHeader), 1));
  ends.first->send(whole);
  run(ends, left, right, [&] { return right.frames.size() == 1; });

  TestFrame long_one(2, pattern(std::size_t{8} << 20, 2));
  ends.first->send(long_one);
  std::vector<std::unique_ptr<TestFrame>> short_ones;
  for (unsigned i = 0; i < 40; ++i) {
    short_ones.push_back(std::make_unique<TestFrame>(3 + i, pattern(8, i)));
    ends.first->send(*short_ones.back());
  }
  while (long_one.sent == 0) {
    ends.second->poll(right);
    ends.first->poll(left);
  }
  CHECK(short_ones.back()->sent == 1);
  run(ends, left, right, [&] { return right.frames.size() == 42; });
}

TEST_CASE("who looks for more so often in vain, or sleeps, acknowledges what has come", "[transport][socket_link]") {
  constexpr int kPatience = 3;
  Ends ends = tcp4_pair(kPatience);
  Recorder right;
  const auto acknowledged = [&] {
    tcp_info info{};
    socklen_t length = sizeof info;
    REQUIRE(::getsockopt(ends.first->descriptor(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
    return info.tcpi_unacked == 0;
  };
  for (int round = 0; round < 3;) {
    TestFrame frame(1, pattern(8, 1));
    const auto sent = std::chrono::steady_clock::now();
    ends.first->send(frame);
    while (ends.second->poll(right) == 0) continue;
    for (int look = 1; look < kPatience; ++look) CHECK(ends.second->poll(right) == 0);
    const bool before = acknowledged();
    // After 40 ms the system does it by itself.
    if (std::chrono::steady_clock::now() - sent > std::chrono::milliseconds(20)) continue;
    CHECK_FALSE(before);
    const bool sleeps = round++ == 1;
    if (sleeps) {
      CHECK_FALSE(ends.second->rest(true));
    } else {
      CHECK(ends.second->poll(right) == 0);
    }
    while (!acknowledged() && std::chrono::steady_clock::now() - sent < std::chrono::milliseconds(30)) continue;
    CHECK(acknowledged());
  }
}

TEST_CASE("within a host no packet is held back to spread the load", "[transport][socket_link]") {
  const Ends ends = tcp4_pair();
  for (const Link* link : {ends.first.get(), ends.second.get()}) {
    std::array<char, 16> name{};
    socklen_t length = name.size();
    REQUIRE(::getsockopt(link->descriptor(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0);
    CHECK(std::string(name.data()) == "reno");
  }
}

TEST_CASE("a socket that brings no frames of ours is given up", "[transport][socket_link]") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const Descriptor stranger(fds[0]);
  SocketLink link{Descriptor(fds[1])};
  std::string garbage(200, 'x');
  SECTION("none of this version") {}
  SECTION("of a context that there is not") {
    FrameHeader header;
    header.context = FrameHeader::collective + 1;
    std::memcpy(garbage.data(), &header, sizeof header);
  }
  REQUIRE(::write(stranger.get(), garbage.data(), garbage.size()) == 200);
  Recorder recorder;
  for (int i = 0; i < 3; ++i) link.poll(recorder);
  CHECK(recorder.frames.empty());
  CHECK(recorder.closed_count == 1);
}

TEST_CASE("a buffer that is gone before it was sent ends the link on both sides", "[transport][socket_link]") {
  for (const char* kind : {"tcp over IPv4", "unix"}) {
    CAPTURE(kind);
    Ends ends = make(kind);
    Recorder left, right;
    constexpr std::size_t kBytes = std::size_t{16} << 20;
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    TestFrame frame(7, {});
    frame.header.bytes = kBytes;
    frame.payload = {static_cast<const std::byte*>(memory), kBytes};
    ends.first->send(frame);
    REQUIRE(::mprotect(memory, kBytes, PROT_NONE) == 0);
    run(ends, left, right, [&] { return left.closed_count > 0 && right.closed_count > 0; });
    CHECK(left.cause == "the connection was given up (a buffer to be sent to it was gone)");
    CHECK(right.frames.empty());
    CHECK(frame.sent == 0);
    ends.first->release(frame);
    ::munmap(memory, kBytes);
  }
}
