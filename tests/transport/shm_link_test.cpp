// What only the link through shared memory has; the suite of all links is in link_test.cpp.

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/deny.hpp"
#include "tests/support/frames.hpp"
#include "tests/support/shm_pair.hpp"
#include "transport/passing.hpp"
#include "transport/resting.hpp"
#include "transport/shm_offer.hpp"

using namespace rondo::detail;
using namespace rondo::testing;

namespace {

bool readable(const Link& link) {
  pollfd wanted{link.descriptor(), POLLIN, 0};
  return ::poll(&wanted, 1, 0) == 1;
}

struct Sockets {
  Sockets() {
    int fds[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) throw std::runtime_error("socketpair");
    here = Descriptor(fds[0]);
    there = Descriptor(fds[1]);
  }
  Descriptor here, there;
};

// Lets two sides agree; returns what carries their frames, and why.
std::pair<std::string, std::string> agree(ShmOffer offers, ShmOffer accepts) {
  Sockets sockets;
  auto first = ShmOffer::Progress::pending;
  auto second = ShmOffer::Progress::pending;
  for (int i = 0; i < 10 && second == ShmOffer::Progress::pending; ++i) {
    if (first == ShmOffer::Progress::pending) first = offers.step(sockets.here);
    second = accepts.step(sockets.there);
  }
  if (first == ShmOffer::Progress::pending) first = offers.step(sockets.here);
  if (first != ShmOffer::Progress::agreed || second != ShmOffer::Progress::agreed) return {"nothing", ""};
  const auto left = offers.make_link(std::move(sockets.here));
  const auto right = accepts.make_link(std::move(sockets.there));
  if (left->transport() != right->transport() || offers.reason() != accepts.reason()) return {"two things", ""};
  Recorder recorder;
  TestFrame frame(7, pattern(1000, 7));
  left->send(frame);
  right->poll(recorder);
  return {recorder.frames.size() == 1 ? std::string(right->transport()) : "silence", offers.reason()};
}

}  // namespace

TEST_CASE("two sides agree on shared memory, or say why not", "[transport][shm]") {
  using Answer = std::pair<std::string, std::string>;
  CHECK(agree(ShmOffer(true, ""), ShmOffer(false, "")) == Answer("shm", ""));
  CHECK(agree(ShmOffer(true, "not here"), ShmOffer(false, "")) == Answer("unix", "not here"));
  CHECK(agree(ShmOffer(true, ""), ShmOffer(false, "not there")) == Answer("unix", "not there"));
}

TEST_CASE("a link says which way long messages go, and why", "[transport][shm]") {
  using Read = std::function<bool(std::span<std::byte>)>;
  // As fast or slow as the machine may be at it.
  const auto can = +[](const Read& read) {
    std::vector<std::byte> into(kTriedBytes);
    return std::string(read(into) ? "" : "not read");
  };
  const auto is_slow = +[](const Read&) { return std::string("too slow"); };
  const auto said = [](auto trial) {
    Sockets sockets;
    ShmOffer offers(true, "", trial);
    ShmOffer accepts(false, "");
    offers.step(sockets.here);
    accepts.step(sockets.there);
    offers.step(sockets.here);
    return offers.make_link(std::move(sockets.here))->long_messages();
  };
  CHECK(said(can) == "by process_vm_readv");
  CHECK(said(is_slow) == "through the ring: too slow");
  std::string refused;
  std::thread([&] {
    deny_reading();
    refused = said(can);
  }).join();
  CHECK(refused == "through the ring: process_vm_readv: Operation not permitted");

  auto [left, right] = shm_pair();
  std::vector<std::byte> into(100);
  CHECK(right->pull(8, into, false) == Link::Pulled::no);
  CHECK(right->long_messages() == "through the ring: process_vm_readv: Bad address");
}

TEST_CASE("where files may not be as long as the memory, both sides hear of it and nobody is killed",
          "[transport][shm]") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit little = before;
  little.rlim_cur = 65536;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
  const auto [transport, reason] = agree(ShmOffer(true, ""), ShmOffer(false, ""));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(transport == "unix");
  CHECK_THAT(reason, Catch::Matchers::ContainsSubstring("ulimit -f"));
}

TEST_CASE("an offer without the memory that it speaks of is refused", "[transport][shm]") {
  Sockets sockets;
  ShmOffer accepts(false, "");
  std::array<std::byte, 128> nonsense{};
  REQUIRE(::write(sockets.here.get(), nonsense.data(), nonsense.size()) == 128);
  CHECK(accepts.step(sockets.there) == ShmOffer::Progress::broken);
  sockets.here.reset();
  CHECK(ShmOffer(false, "").step(sockets.there) == ShmOffer::Progress::broken);
}

TEST_CASE("memory that may shrink, or of another size, is not mapped", "[transport][shm]") {
  const SharedMemory good = SharedMemory::create(8192);
  CHECK_NOTHROW(SharedMemory::map(Descriptor(::dup(good.descriptor())), 8192));
  CHECK_THROWS_AS(SharedMemory::map(Descriptor(::dup(good.descriptor())), 4096), std::system_error);
  CHECK(::ftruncate(good.descriptor(), 4096) != 0);
  Descriptor soft(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(soft.get(), 8192) == 0);
  CHECK_THROWS_AS(SharedMemory::map(std::move(soft), 8192), std::system_error);
}

TEST_CASE("shared memory is there before it is touched, on both sides", "[transport][shm]") {
  constexpr std::size_t kPage = 4096, kPages = 256;
  const SharedMemory made = SharedMemory::create(kPages * kPage);
  const SharedMemory mapped = SharedMemory::map(Descriptor(::dup(made.descriptor())), made.size());
  for (const SharedMemory* const side : {&made, &mapped}) {
    const auto faults = [] {
      rusage used{};
      ::getrusage(RUSAGE_SELF, &used);
      return used.ru_minflt + used.ru_majflt;
    };
    const long before = faults();
    for (std::size_t page = 0; page < kPages; ++page) side->data()[page * kPage] = std::byte{1};
    // Each page else; a sanitizer has pages of its own about them, an eighth as many.
    CHECK(faults() - before <= long{kPages} / 8 + 1);
  }
}

TEST_CASE("a side that rests is woken by what is sent to it, once", "[transport][shm]") {
  auto [left, right] = shm_pair();
  Recorder recorder;
  TestFrame first(1, pattern(8, 1)), second(2, pattern(8, 2)), third(3, pattern(8, 3));
  left->send(first);
  CHECK_FALSE(readable(*right));
  right->rest(true);
  Resting::order();
  left->send(second);
  CHECK(readable(*right));
  right->rest(false);
  right->check(recorder);
  CHECK_FALSE(readable(*right));
  left->send(third);
  CHECK_FALSE(readable(*right));
  while (right->poll(recorder) > 0) {
  }
  CHECK(recorder.frames.size() == 3);
  CHECK(recorder.closed_count == 0);
}

TEST_CASE("a sender that waits for room and rests is woken when there is some", "[transport][shm]") {
  auto [left, right] = shm_pair(64);
  Recorder recorder;
  TestFrame frame(1, pattern(100'000, 1));
  left->send(frame);
  left->rest(true);
  Resting::order();
  while (right->poll(recorder) > 0) {
  }
  CHECK(readable(*left));
}

TEST_CASE("a payload is pulled from the other side's memory while its ticket is good", "[transport][shm]") {
  auto [left, right] = shm_pair();
  const auto payload = pattern(200'000, 5);
  const auto address = reinterpret_cast<std::uint64_t>(payload.data());
  std::vector<std::byte> into(payload.size());
  const bool jointly = GENERATE(false, true);
  CHECK(right->pull_from() > 0);
  const std::uint64_t ticket = left->pull_ticket().value();
  CHECK(right->pull(address, into, jointly) == Link::Pulled::yes);
  CHECK(into == payload);
  CHECK(right->good(ticket));
  left->void_tickets();
  CHECK_FALSE(right->good(ticket));
  CHECK(right->good(left->pull_ticket().value()));
  // Memory that is not there: it is not tried again.
  CHECK(right->pull(8, into, jointly) == Link::Pulled::no);
  CHECK(right->pull_from() == 0);
}

TEST_CASE("what is asked of a side that comes by too late is let be, and frames come behind it", "[transport][shm]") {
  auto [left, right] = shm_pair();
  auto payload = pattern(200'000, 5);
  std::vector<std::byte> into(payload.size());
  REQUIRE(right->pull(reinterpret_cast<std::uint64_t>(payload.data()), into, true) == Link::Pulled::yes);
  const auto before = into;
  payload.assign(payload.size(), std::byte{0});
  TestFrame frame(1, pattern(8, 1));
  right->send(frame);
  Recorder recorder;
  while (left->poll(recorder) > 0) {
  }
  CHECK(recorder.frames.size() == 1);
  CHECK(recorder.closed_count == 0);
  CHECK(into == before);
}

TEST_CASE("a pair takes the memory that the README says", "[transport][shm]") {
  constexpr std::size_t kPage = 4096;
  CHECK((ShmLink::memory_bytes() + kPage - 1) / kPage * kPage == std::size_t{516} << 10);
}

TEST_CASE("the other side is asked for a part of what is pulled, but where that is too long to be counted in claims",
          "[transport][shm]") {
  const std::size_t bytes = GENERATE(ShmLink::kPullFrom + 1, JointCopy::kMostBytes, JointCopy::kMostBytes + 1);
  auto [left, right] = shm_pair();
  std::byte place{};
  CHECK(right->pull(8, {&place, bytes}, true) == Link::Pulled::no);
  Recorder recorder;
  CHECK(left->poll(recorder) == (bytes <= JointCopy::kMostBytes ? 1 : 0));
}

TEST_CASE("a side that comes by writes a part of what the other pulls", "[transport][shm]") {
  SharedMemory made = SharedMemory::create(ShmLink::memory_bytes(64));
  SharedMemory mapped = SharedMemory::map(Descriptor(::dup(made.descriptor())), made.size());
  auto& shared = *reinterpret_cast<JointCopy::Shared*>(made.data() + 2 * LineRing::bytes(64));
  Sockets sockets;
  ShmLink link(std::move(sockets.here), std::move(mapped), false, ::getpid(), 64);
  const auto payload = pattern(200'000, 5);
  std::vector<std::byte> into(payload.size());
  const JointRead read(shared, 1, reinterpret_cast<std::uint64_t>(payload.data()), into);
  RingWriter writer(made.data(), 64);
  std::memcpy(writer.reserve(sizeof(JointCopy::Request)), &read.request(), sizeof(JointCopy::Request));
  writer.publish(LineRing::Kind::help, sizeof(JointCopy::Request));
  Recorder recorder;
  CHECK(link.poll(recorder) == 1);
  CHECK(into == payload);
}

TEST_CASE("what another side had begun to write is not waited for once that has died", "[transport][shm]") {
  SharedMemory made = SharedMemory::create(ShmLink::memory_bytes());
  SharedMemory mapped = SharedMemory::map(Descriptor(::dup(made.descriptor())), made.size());
  const std::size_t at = 2 * LineRing::bytes(ShmLink::kLines);
  Sockets sockets;
  // What it pulls is the memory of the link, and in it the claim of the last piece.
  const std::span into(made.data(), made.size());
  ShmLink link(std::move(sockets.here), std::move(mapped), true, ::getpid());
  const std::uint64_t units = (made.size() + 4095) / 4096;
  const std::uint64_t claims = std::uint64_t{1} << 48 | (units - 1) << 24 | 1;
  std::vector<std::byte> payload(into.size());
  std::memcpy(payload.data() + at, &claims, sizeof claims);
  REQUIRE(link.pull(reinterpret_cast<std::uint64_t>(payload.data()), into, true) == Link::Pulled::not_yet);
  sockets.there.reset();
  const auto begin = std::chrono::steady_clock::now();
  link.give_up_pull();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(500));
}

TEST_CASE("each note comes with its own descriptor, wherever reading the socket stops", "[transport][shm]") {
  constexpr std::size_t kNote = 1 + sizeof(std::uint64_t);
  const std::size_t bells = GENERATE(range(0, 130));
  CAPTURE(bells);
  SharedMemory memory = SharedMemory::create(ShmLink::memory_bytes(64));
  Sockets sockets;
  ShmLink link(std::move(sockets.here), std::move(memory), true, 0, 64);
  const std::vector<std::byte> rung(bells);
  REQUIRE(::send(sockets.there.get(), rung.data(), bells, 0) == static_cast<ssize_t>(bells));
  std::vector<Descriptor> reads, writes;
  for (std::uint64_t number = 0; number < 3; ++number) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    reads.emplace_back(ends[0]);
    writes.emplace_back(ends[1]);
    std::array<std::byte, kNote> note{std::byte{1}};
    std::memcpy(note.data() + 1, &number, sizeof number);
    REQUIRE(send_with_descriptor(sockets.there, note, ends[1]));
  }
  Recorder recorder;
  link.check(recorder);
  REQUIRE(recorder.descriptors.size() == 3);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto& [number, descriptor] = recorder.descriptors[i];
    CHECK(number == i);
    CHECK(::write(descriptor.get(), "!", 1) == 1);
    pollfd there{reads[i].get(), POLLIN, 0};
    CHECK(::poll(&there, 1, 0) == 1);
  }
}

TEST_CASE("records that no rondo writes end the link", "[transport][shm]") {
  const auto kind = GENERATE(LineRing::Kind::piece, LineRing::Kind::frame, LineRing::Kind::long_frame,
                             LineRing::Kind::help, static_cast<LineRing::Kind>(99));
  CAPTURE(static_cast<int>(kind));
  SharedMemory made = SharedMemory::create(ShmLink::memory_bytes(64));
  SharedMemory mapped = SharedMemory::map(Descriptor(::dup(made.descriptor())), made.size());
  Sockets sockets;
  ShmLink link(std::move(sockets.here), std::move(mapped), false, 0, 64);
  RingWriter writer(made.data(), 64);
  std::byte* const record = writer.reserve(16);
  REQUIRE(record != nullptr);
  std::memset(record, 0xee, 16);
  writer.publish(kind, 16);
  Recorder recorder;
  for (int i = 0; i < 3; ++i) link.poll(recorder);
  CHECK(recorder.frames.empty());
  CHECK(recorder.closed_count == 1);
}

TEST_CASE("a frame of a context that there is not ends the link", "[transport][shm]") {
  SharedMemory made = SharedMemory::create(ShmLink::memory_bytes(64));
  SharedMemory mapped = SharedMemory::map(Descriptor(::dup(made.descriptor())), made.size());
  Sockets sockets;
  ShmLink link(std::move(sockets.here), std::move(mapped), false, 0, 64);
  RingWriter writer(made.data(), 64);
  FrameHeader header;
  header.context = FrameHeader::collective + 1;
  std::byte* const record = writer.reserve(sizeof header);
  REQUIRE(record != nullptr);
  std::memcpy(record, &header, sizeof header);
  writer.publish(LineRing::Kind::long_frame, sizeof header);
  Recorder recorder;
  for (int i = 0; i < 3; ++i) link.poll(recorder);
  CHECK(recorder.frames.empty());
  CHECK(recorder.closed_count == 1);
}

TEST_CASE("a mark that promises more than the ring holds ends the link", "[transport][shm]") {
  SharedMemory made = SharedMemory::create(ShmLink::memory_bytes(64));
  SharedMemory mapped = SharedMemory::map(Descriptor(::dup(made.descriptor())), made.size());
  Sockets sockets;
  ShmLink link(std::move(sockets.here), std::move(mapped), false, 0, 64);
  const std::uint64_t mark = std::uint64_t{2} << 56 | 1'000'000;
  std::memcpy(made.data() + sizeof(LineRing::Control), &mark, sizeof mark);
  Recorder recorder;
  for (int i = 0; i < 3; ++i) link.poll(recorder);
  CHECK(recorder.closed_count == 1);
}
