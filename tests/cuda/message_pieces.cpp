// Long messages that go through the host, in pieces.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/device_pieces.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {
namespace {

constexpr std::size_t kPiece = rondo::detail::DevicePieces::kBytes;
/// What a rank pins for the pieces to or from one other, and much more than that. A last, short piece adds a little.
constexpr std::size_t kPinned = rondo::detail::DevicePieces::kAhead * kPiece;
constexpr std::size_t kLong = 5 * kPinned + 1;

std::size_t told_by_stand_in(const char* function) {
  return is_stand_in() ? driver_function<std::size_t()>(function)() : 0;
}

/// In memory of two ranks.
std::size_t slots() { return told_by_stand_in("rondo_stand_in_registered"); }
std::size_t blocks() { return told_by_stand_in("rondo_stand_in_most_pinned"); }
std::size_t most_pinned() { return blocks() + slots(); }

/// Every rank to the next, all kinds of memory on either side, of lengths around those of pieces.
void long_around(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  for (const std::size_t bytes : {kPiece, kPiece + 1, 2 * kPiece, 3 * kPiece - 1, kLong}) {
    const Buffer out(world, bytes), in(world, bytes);
    const auto sent = pattern(world.rank(), 0, bytes), wanted = pattern(left, 0, bytes);
    put(device, out, 0, sent);
    std::vector<std::byte> host(bytes);
    world.sendrecv(out.span(stream_of(device)), right, in.span(stream_of(device)), left);
    check(device, in, 0, wanted, "from device to device");
    device.fill(address_of(in), bytes, std::byte{0});
    world.sendrecv(out.span(stream_of(device)), right, std::span(host), left);
    require(same_bits(host, wanted), "from device to host");
    world.sendrecv(std::span(sent), right, in.span(stream_of(device)), left);
    check(device, in, 0, wanted, "from host to device");
  }
  // A message of one piece has a block of its own on either side.
  require(most_pinned() < 2 * kPinned + 3 * kPiece, "no more memory is pinned than for the pieces on their way");
}

/// Rank 0 has as many pieces on their way as there may be, and no more; rank 1 no more either. What stands in the way
/// of slots begins once all else is there.
void few_pieces(Communicator& world, bool share_slots, void (*hinder)(int rank) = nullptr) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kLong);
  if (world.rank() == 0) put(device, buffer, 0, pattern(0, 0, kLong));
  if (hinder != nullptr) {
    barrier(world);
    hinder(world.rank());
  }
  if (world.rank() == 0) {
    world.send(buffer.span(stream_of(device)), 1);
    require(!is_stand_in() || (most_pinned() >= kPinned && most_pinned() < kPinned + kPiece),
            "so many pieces are copied at a time");
    share_slots ? require(blocks() == 0, "all lies in slots") : require(slots() == 0, "there are no slots");
  } else {
    world.recv(buffer.span(stream_of(device)), 0);
    check(device, buffer, 0, pattern(0, 0, kLong), "a long message");
    require(most_pinned() < kPinned + kPiece, "so many pieces come at a time");
    share_slots ? require(blocks() == 0, "all comes in slots") : require(slots() == 0, "there are no slots");
  }
}

void forbid(auto resource, rlim_t beyond) {
  rlimit limit{};
  require(::getrlimit(resource, &limit) == 0, "getrlimit");
  limit.rlim_cur = beyond;
  require(::setrlimit(resource, &limit) == 0, "setrlimit");
}

/// The sender can make no slots: memory without a name counts as a file.
void slots_are_not_made(int rank) {
  if (rank == 0) forbid(RLIMIT_FSIZE, kPinned - 1);
}

/// The receiver has no room for their descriptor.
void slots_are_not_mapped(int rank) {
  if (rank != 1) return;
  const int next = ::dup(STDIN_FILENO);
  require(next >= 0 && ::close(next) == 0, "dup");
  forbid(RLIMIT_NOFILE, static_cast<rlim_t>(next));
}

/// Many at a time both ways, long and short, received in another order, every second one by the host.
void many_long(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const int other = 1 - world.rank();
  constexpr std::uint32_t kMessages = 8;
  const auto length = [](std::uint32_t i) { return i % 3 == 2 ? std::size_t{100} : (i + 1) * kPiece + 7; };
  std::deque<Buffer> out, in;
  std::deque<std::vector<std::byte>> on_host;
  std::vector<Work> works;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    put(device, out.emplace_back(world, length(i)), 0, pattern(world.rank(), static_cast<int>(i), length(i)));
    works.push_back(world.isend(out.back().span(stream_of(device)), other, Tag{i}));
    in.emplace_back(world, length(i));
    on_host.emplace_back(length(i));
  }
  for (std::uint32_t i = kMessages; i-- > 0;) {
    works.push_back(i % 2 == 0 ? world.irecv(in[i].span(stream_of(device)), other, Tag{i})
                               : world.irecv(std::span(on_host[i]), other, Tag{i}));
  }
  wait_all(works);
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    const auto wanted = pattern(other, static_cast<int>(i), length(i));
    require(same_bits(i % 2 == 0 ? device.content(address_of(in[i]), length(i)) : on_host[i], wanted), "one of many");
  }
  require(most_pinned() <= 3 * kPinned, "many take no more than a few");
}

/// The stream waits instead of the host, for the last piece too; the sender's, to overwrite what it has sent.
void streams_wait_for_all(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  for (int round = 0; round < 3; ++round) {
    const Buffer buffer(world, kLong);
    if (world.rank() == 0) {
      put(device, buffer, 0, pattern(0, round, kLong));
      world.isend(buffer.span(stream_of(device)), 1).wait_on(stream_of(device));
      overwrite(device, buffer);
      device.stream.synchronize();
    } else {
      std::vector<std::byte> after(kLong);
      world.irecv(buffer.span(stream_of(device)), 0).wait_on(stream_of(device));
      device.read(address_of(buffer), after);
      device.stream.synchronize();
      require(same_bits(after, pattern(0, round, kLong)), "what came after on the stream");
    }
  }
}

/// A rank waits for another's sign outside of rondo, where only its helper thread drives.
class Sign {
 public:
  Sign() { require(::pipe2(ends_, O_CLOEXEC) == 0, "pipe2"); }
  ~Sign() {
    for (const int end : ends_) ::close(end);
  }
  Sign(const Sign&) = delete;
  Sign& operator=(const Sign&) = delete;

  std::array<int, 2> address() const { return {::getpid(), ends_[1]}; }
  void await() const {
    char sign = 0;
    require(::read(ends_[0], &sign, 1) == 1, "read");
  }
  static void give(const std::array<int, 2>& to) {
    const std::string end = "/proc/" + std::to_string(to[0]) + "/fd/" + std::to_string(to[1]);
    const int opened = ::open(end.c_str(), O_WRONLY | O_CLOEXEC);
    require(opened >= 0 && ::write(opened, "", 1) == 1 && ::close(opened) == 0, "give a sign");
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Where the last copies of a message are queued and come to no end, the stream waits for them; the host does not. Nor
/// need it come back to rondo once they are over.
void goes_on_while_held(Communicator& world, int waiting, std::size_t bytes, bool other_on_host) {
  const DeviceUnderTest device(own_device(world));
  const auto stream = stream_of(device);
  const auto sent = pattern(0, 0, bytes);
  const Buffer buffer(world, bytes), after(world, bytes);
  std::vector<std::byte> on_host(bytes);
  const Sign arrived;
  auto sender = arrived.address();
  if (world.rank() == 0) {
    put(device, buffer, 0, sent);
    world.send(std::span(sender), 1, Tag{1});
  } else {
    world.recv(std::span(sender), 0, Tag{1});
  }
  const auto start = [&] {
    const bool on_the_host = other_on_host && world.rank() != waiting;
    if (world.rank() == 0) return on_the_host ? world.isend(std::span(sent), 1) : world.isend(buffer.span(stream), 1);
    return on_the_host ? world.irecv(std::span(on_host), 0) : world.irecv(buffer.span(stream), 0);
  };
  // What is pinned and mapped is so while no stream is held, for which a driver might wait.
  start().wait();
  if (world.rank() == 1) device.fill(address_of(buffer), bytes, std::byte{0});
  std::fill(on_host.begin(), on_host.end(), std::byte{0});
  if (world.rank() == waiting) {
    HeldStream copies = hold_copies(world, device);
    start().wait_on(stream);
    waiting == 0 ? overwrite(device, buffer) : device.copy(address_of(after), address_of(buffer), bytes);
    require(!device.stream.idle(), "the stream did not wait");
    copies.let_go();
    device.stream.synchronize();
    waiting == 0 ? arrived.await() : check(device, after, 0, sent, "what came after on the stream");
    return;
  }
  start().wait();
  if (world.rank() == 0) return;
  if (other_on_host) {
    require(same_bits(on_host, sent), "what was sent before the stream went on, to the host");
  } else {
    check(device, buffer, 0, sent, "what was sent before the stream went on");
  }
  Sign::give(sender);
}

/// Of one piece, and of as many as may be on their way at a time.
void host_goes_on(Communicator& world) {
  for (const std::size_t bytes : {std::size_t{5000}, kPiece, kPinned}) {
    for (const bool other_on_host : {false, true}) {
      for (const int waiting : {0, 1}) goes_on_while_held(world, waiting, bytes, other_on_host);
    }
  }
}

/// One of two long messages waits for its stream, at the sender or at the receiver; the other one does not.
void long_streams_apart(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), behind(own_device(world));
  const Buffer late(world, kLong), soon(world, kLong);
  for (const int holder : {0, 1}) {
    std::optional<HeldStream> held;
    if (world.rank() == holder) held.emplace(behind);
    Work waits;
    if (world.rank() == 0) {
      put(device, soon, 0, pattern(holder, 1, kLong));
      waits = world.isend(late.span(stream_of(behind)), 1, Tag{1});
      world.send(soon.span(stream_of(device)), 1);
    } else {
      waits = world.irecv(late.span(stream_of(behind)), 0, Tag{1});
      (void)world.probe(0);
      world.recv(soon.span(stream_of(device)), 0);
      check(device, soon, 0, pattern(holder, 1, kLong), "what another stream had");
    }
    barrier(world);
    require(!waits.test(), "it overtook its stream");
    held.reset();
    waits.wait();
  }
}

/// A long message does not fit, and the next one comes.
void long_truncated(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kLong);
  if (world.rank() == 0) {
    put(device, buffer, 0, pattern(0, 0, kLong));
    world.send(buffer.span(stream_of(device)), 1);
    world.send(buffer.span(stream_of(device)), 1);
    return;
  }
  refused(Errc::truncated, "wanted at most",
          [&] { world.recv(buffer.span(stream_of(device)).subspan(1, kLong - 1), 0); });
  world.recv(buffer.span(stream_of(device)), 0);
  check(device, buffer, 0, pattern(0, 0, kLong), "what came after one that did not fit");
}

/// Starts a message, drives it until pieces are on their way here, and gives it up. It cannot come to its end before.
void give_up(Communicator& world, const DeviceUnderTest& device, const std::function<Work()>& start) {
  struct ChangedItsMind : std::exception {};
  const HeldStream held = hold_copies(world, device);
  const std::size_t before = most_pinned();
  try {
    Work given_up = start();
    while (most_pinned() == before) require(!given_up.test(), "a message that takes long");
    throw ChangedItsMind();
  } catch (const ChangedItsMind&) {
  }
}

/// The sender gives up in the middle of a message, or the receiver does; the next one comes whole.
void long_taken_back(Communicator& world, int who) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kLong);
  if (world.rank() == 0) {
    put(device, buffer, 0, pattern(0, 0, kLong));
    const auto start = [&] { return world.isend(buffer.span(stream_of(device)), 1); };
    if (who == 0) {
      give_up(world, device, start);
    } else {
      start().wait();
    }
    world.send(buffer.span(stream_of(device)), 1);
    return;
  }
  const auto start = [&] { return world.irecv(buffer.span(stream_of(device)), 0); };
  if (who == 1) {
    give_up(world, device, start);
  } else {
    refused(Errc::peer_failed, "the sender gave the message up", [&] { start().wait(); });
  }
  world.recv(buffer.span(stream_of(device)), 0);
  check(device, buffer, 0, pattern(0, 0, kLong), "what came after one that was given up");
  require(most_pinned() <= 2 * kPinned, "what was given up takes no more");
}

/// The driver refuses a copy in the middle, by injection: at the sender, or at the receiver.
void copy_of_a_piece_fails(Communicator& world, int who) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kLong);
  for (const bool fails : {true, false}) {
    if (world.rank() == 0) {
      Work sent = world.isend(buffer.span(stream_of(device)), 1);
      if (fails && who == 0) {
        driver_refuses("cuMemcpyDtoHAsync_v2", 700, [&] { sent.wait(); });
      } else {
        sent.wait();
      }
    } else {
      Work received = world.irecv(buffer.span(stream_of(device)), 0);
      if (!fails) {
        received.wait();
      } else if (who == 1) {
        driver_refuses("cuMemcpyHtoDAsync_v2", 700, [&] { received.wait(); });
      } else {
        refused(Errc::peer_failed, "the sender gave the message up", [&] { received.wait(); });
      }
    }
  }
}

/// The driver fails, by injection, and the device of rank 0 hangs in the middle of a message: what it writes when it
/// goes on is not taken for a part of the next.
void copy_of_a_piece_hangs(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kTwo = 2 * kPiece;
  const Buffer buffer(world, kTwo);
  const auto next = pattern(0, 1, kTwo);
  device.fill(address_of(buffer), kTwo, std::byte{0});
  char word = 0;
  if (world.rank() == 0) {
    HeldStream copies = hold_copies(world, device);
    Work sent = world.isend(buffer.span(), 1);
    driver_refuses("cuStreamQuery", 2, [&] { sent.wait(); });
    world.send(std::span(next), 1);
    copies.drain();
    world.send(std::span(&word, 1), 1, Tag{1});
  } else {
    refused(Errc::peer_failed, "the sender gave the message up", [&] { world.recv(buffer.span(), 0); });
    HeldStream copies = hold_copies(world, device);
    Work received = world.irecv(buffer.span(), 0);
    world.recv(std::span(&word, 1), 0, Tag{1});
    copies.let_go();
    received.wait();
    check(device, buffer, 0, next, "what came after one that hung");
  }
}

}  // namespace

Acts message_pieces() {
  return {
      {"long-around", long_around},
      {"few-pieces", [](Communicator& world) { few_pieces(world, false); }},
      {"few-pieces-in-slots", [](Communicator& world) { few_pieces(world, true); }},
      {"slots-not-made", [](Communicator& world) { few_pieces(world, false, slots_are_not_made); }},
      {"slots-not-mapped", [](Communicator& world) { few_pieces(world, false, slots_are_not_mapped); }},
      {"many-long", many_long},
      {"streams-wait-for-all", streams_wait_for_all},
      {"host-goes-on", host_goes_on},
      {"long-streams-apart", long_streams_apart},
      {"long-truncated", long_truncated},
      {"sender-gives-up", [](Communicator& world) { long_taken_back(world, 0); }},
      {"receiver-gives-up", [](Communicator& world) { long_taken_back(world, 1); }},
      {"piece-fails-at-sender", [](Communicator& world) { copy_of_a_piece_fails(world, 0); }},
      {"piece-hangs", copy_of_a_piece_hangs},
      {"piece-fails-at-receiver", [](Communicator& world) { copy_of_a_piece_fails(world, 1); }},
  };
}

}  // namespace rondo::testing
