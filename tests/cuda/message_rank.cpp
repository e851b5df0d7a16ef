// A rank that sends and receives memory of a device: message_rank ACT. Started by rondo-run. Ends with 0 when all was
// as it must be, else it says what was not.
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <rondo/rondo.hpp>

#include "runtime/rank_device.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"

namespace {

using rondo::Communicator;
using rondo::Status;
using rondo::Tag;
using rondo::Work;
using rondo::testing::address_of;
using rondo::testing::Buffer;
using rondo::testing::check;
using rondo::testing::DeviceUnderTest;
using rondo::testing::HeldStream;
using rondo::testing::Neighbours;
using rondo::testing::own_device;
using rondo::testing::pattern;
using rondo::testing::put;
using rondo::testing::refused;
using rondo::testing::require;
using rondo::testing::stream_of;

/// Device to device, device to host, host to device; sizes and offsets that no vector likes.
void around(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  constexpr std::size_t kLong = std::size_t{9} << 20;
  constexpr std::size_t kBehind = 64;
  const Buffer out(world, kLong + 3), in(world, kLong + 3 + kBehind);
  int round = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{4095},
                                  (std::size_t{2} << 20) - 1, kLong}) {
    for (const std::size_t offset : {std::size_t{3}, std::size_t{0}}) {
      if (bytes == kLong && offset == 0) continue;
      ++round;
      const std::size_t touched = offset + bytes + kBehind;
      const auto sent = pattern(world.rank(), round, bytes);
      const auto wanted = pattern(left, round, bytes);
      put(device, out, offset, sent);
      const auto from = out.span(stream_of(device)).subspan(offset, bytes);
      const auto to = in.span(stream_of(device)).subspan(offset, bytes);

      device.fill(address_of(in), touched, std::byte{0});
      const Status status = world.sendrecv(from, right, to, left);
      require(status.source == left && status.bytes == bytes, "device to device: the status");
      check(device, in, offset, wanted, "device to device");

      std::vector<std::byte> host(bytes);
      Work received = world.irecv(std::span(host), left);
      world.send(from, right);
      received.wait();
      require(host == wanted, "device to host");

      device.fill(address_of(in), touched, std::byte{0});
      received = world.irecv(to, left);
      world.send(std::span(sent), right);
      received.wait();
      check(device, in, offset, wanted, "host to device");
      check(device, in, offset + bytes, std::vector<std::byte>(kBehind), "nothing behind it");
    }
  }
}

/// More at a time than there are events; from any source; before anybody has asked for them.
void many(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  constexpr std::size_t kBytes = 100;
  constexpr int kMessages = 200;
  const Buffer out(world, kBytes * kMessages), in(world, kBytes * kMessages);
  for (int i = 0; i < kMessages; ++i) {
    put(device, out, static_cast<std::size_t>(i) * kBytes, pattern(world.rank(), i, kBytes));
  }
  std::vector<Work> works;
  for (int i = 0; i < kMessages; ++i) {
    works.push_back(world.isend(out.span().subspan(static_cast<std::size_t>(i) * kBytes, kBytes), right));
  }
  barrier(world);
  for (int i = 0; i < kMessages; ++i) {
    works.push_back(world.irecv(in.span().subspan(static_cast<std::size_t>(i) * kBytes, kBytes), rondo::any_source));
  }
  rondo::wait_all(works);
  for (int i = 0; i < kMessages; ++i) {
    check(device, in, static_cast<std::size_t>(i) * kBytes, pattern(left, i, kBytes), "in order");
  }
}

/// The receives are there before: events come back while more messages go than there are events.
void many_expected(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  constexpr std::size_t kBytes = 100;
  constexpr std::size_t kMessages = 300;
  const Buffer out(world, kBytes * kMessages), in(world, kBytes * kMessages);
  put(device, out, 0, pattern(world.rank(), 0, kBytes * kMessages));
  std::vector<Work> works;
  for (std::size_t i = 0; i < kMessages; ++i) works.push_back(world.irecv(in.span().subspan(i * kBytes, kBytes), left));
  barrier(world);
  for (std::size_t i = 0; i < kMessages; ++i) {
    works.push_back(world.isend(out.span().subspan(i * kBytes, kBytes), right));
    (void)works.front().test();
  }
  rondo::wait_all(works);
  check(device, in, 0, pattern(left, 0, kBytes * kMessages), "all of them");
}

/// From the host and back, after what a stream has to do before.
void copied(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{5} << 20}) {
    const auto first = pattern(world.rank(), 1, bytes), second = pattern(world.rank(), 2, bytes);
    Buffer buffer(world, bytes);
    buffer.copy_from(first);
    check(device, buffer, 0, first, "what was copied from the host");
    device.write(address_of(buffer), second);
    std::vector<std::byte> back(bytes);
    buffer.copy_to(back, stream_of(device));
    require(back == second, "what was copied to the host");
  }
  Buffer buffer(world, 100);
  std::vector<std::byte> host(99);
  const auto wanted = [&](const char* operation) {
    return fmt::format("rank {}: cuda::buffer::{}: got 99 bytes of the host's memory, wanted 100", world.rank(),
                       operation);
  };
  refused(rondo::Errc::invalid_argument, wanted("copy_from"), [&] { buffer.copy_from(host); });
  refused(rondo::Errc::invalid_argument, wanted("copy_to"), [&] { buffer.copy_to(host); });
  Buffer().copy_to({});
}

/// To itself, and among elements of other types.
void to_itself(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  rondo::cuda::buffer<float> out(world, 1000), in(world, 1000);
  device.fill(address_of(out), 4000, std::byte{5});
  device.fill(address_of(in), 4000, std::byte{6});
  world.sendrecv(out.span(), world.rank(), in.span(), world.rank());
  require(device.holds(address_of(in), 4000, std::byte{5}), "to itself");
}

/// More messages than there are events, one at a time.
void in_a_row(Communicator& world) {
  const auto [right, left] = Neighbours(world);
  const Buffer out(world, 100), in(world, 100);
  for (std::size_t i = 0; i < 2 * rondo::detail::RankDevice::kEvents; ++i) {
    world.sendrecv(out.span(), right, in.span(), left);
  }
}

/// Where ranks have other numbers than in the world.
void in_groups(Communicator& world) {
  Communicator reversed = world.split(world.rank() / 2, -world.rank());
  Communicator some = world.subgroup({3, 1, 0});
  for (Communicator* const group : {&reversed, &some}) {
    if (!*group) continue;
    around(*group);
    many(*group);
  }
}

/// Ranks that are threads of one process.
void threads(Communicator&) { rondo::testing::run_ranks(3, around); }

/// Rank 0 sends what its stream has yet to write; the host waits for nothing. To a device or to the host.
void sender_is_behind(Communicator& world, bool to_host) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer buffer(world, kBytes);
  device.fill(address_of(buffer), kBytes, std::byte{1});
  const auto written = pattern(0, 1, kBytes);
  char word = 0;
  if (world.rank() == 0) {
    HeldStream held(device);
    device.write(address_of(buffer), written);
    Work sent = world.isend(buffer.span(stream_of(device)), 1);
    world.send(std::span(&word, 1), 1, Tag{1});
    for (int i = 0; i < 1000; ++i) require(!sent.test(), "it was taken before it was written");
    world.recv(std::span(&word, 1), 1, Tag{1});
    held.let_go();
    sent.wait();
  } else {
    std::vector<std::byte> host(kBytes);
    Work received = to_host ? world.irecv(std::span(host), 0) : world.irecv(buffer.span(), 0);
    world.recv(std::span(&word, 1), 0, Tag{1});
    for (int i = 0; i < 1000; ++i) require(!received.test(), "it came before it was written");
    world.send(std::span(&word, 1), 0, Tag{1});
    received.wait();
    if (to_host) return require(host == written, "what the stream wrote");
    check(device, buffer, 0, written, "what the stream wrote");
  }
}

/// Rank 1's stream still reads the buffer that it receives into. From a device or from the host.
void receiver_is_behind(Communicator& world, bool from_host) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer buffer(world, kBytes), before(world, kBytes);
  device.fill(address_of(buffer), kBytes, std::byte{1});
  char word = 0;
  if (world.rank() == 0) {
    const auto host = pattern(0, 1, kBytes);
    put(device, buffer, 0, host);
    Work sent = from_host ? world.isend(std::span(host), 1) : world.isend(buffer.span(), 1);
    world.send(std::span(&word, 1), 1, Tag{1});
    sent.wait();
  } else {
    HeldStream held(device);
    device.copy(address_of(before), address_of(buffer), kBytes);
    Work received = world.irecv(buffer.span(stream_of(device)), 0);
    world.recv(std::span(&word, 1), 0, Tag{1});
    for (int i = 0; i < 1000; ++i) require(!received.test(), "it was overwritten before it was read");
    held.let_go();
    received.wait();
    check(device, before, 0, std::vector<std::byte>(kBytes, std::byte{1}), "what was there before");
    check(device, buffer, 0, pattern(0, 1, kBytes), "what was received");
  }
}

/// A stream that is behind, at the sender or at the receiver, keeps no message of another stream back.
void streams_apart(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), behind(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer late(world, kBytes), soon(world, kBytes);
  device.fill(address_of(late), kBytes, std::byte{1});
  for (const int holder : {0, 1}) {
    std::optional<HeldStream> held;
    if (world.rank() == holder) held.emplace(behind);
    Work waits;
    if (world.rank() == 0) {
      put(device, soon, 0, pattern(holder, 1, kBytes));
      waits = world.isend(late.span(stream_of(behind)), 1, Tag{1});
      world.send(soon.span(stream_of(device)), 1);
    } else {
      waits = world.irecv(late.span(stream_of(behind)), 0, Tag{1});
      // The first has come as far as it can.
      (void)world.probe(0);
      for (int i = 0; i < 1000; ++i) require(!waits.test(), "it overtook its stream");
      world.recv(soon.span(stream_of(device)), 0);
      check(device, soon, 0, pattern(holder, 1, kBytes), "what another stream had");
    }
    barrier(world);
    held.reset();
    waits.wait();
  }
}

/// Rank 0 has left before rank 1's device has taken what it sent.
void sender_leaves(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const auto sent = pattern(0, 1, kBytes);
  if (world.rank() == 0) {
    Work first = world.isend(std::span(sent), 1);
    first.wait();
    world = Communicator();
    return;
  }
  const Buffer buffer(world, kBytes);
  device.fill(address_of(buffer), kBytes, std::byte{0});
  HeldStream held(device);
  Work received = world.irecv(buffer.span(stream_of(device)), 0);
  char word = 0;
  refused(rondo::Errc::peer_failed, "has left", [&] { world.recv(std::span(&word, 1), 0, Tag{1}); });
  require(!received.test(), "the device cannot have taken it");
  held.let_go();
  received.wait();
  check(device, buffer, 0, sent, "what was sent before the sender left");
}

/// The stream waits instead of the host, and the buffer is forgotten meanwhile.
void stream_waits(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  for (int round = 0; round < 10; ++round) {
    const Buffer buffer(world, kBytes);
    if (world.rank() == 0) {
      put(device, buffer, 0, pattern(0, round, kBytes));
      world.send(buffer.span(stream_of(device)), 1);
    } else {
      std::vector<std::byte> after(kBytes);
      world.irecv(buffer.span(stream_of(device)), 0).wait_on(stream_of(device));
      device.read(address_of(buffer), after);
      device.stream.synchronize();
      require(after == pattern(0, round, kBytes), "what came after on the stream");
    }
  }
}

/// The stream of one rank waits for the other's copy, not the host: what is queued on it next comes after that.
void stream_waits_for_other(Communicator& world, int waiting) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  const auto sent = pattern(0, 1, kBytes);
  const Buffer buffer(world, kBytes);
  if (world.rank() == 0) put(device, buffer, 0, sent);
  Work work = world.rank() == 0 ? world.isend(buffer.span(stream_of(device)), 1)
                                : world.irecv(buffer.span(stream_of(device)), 0);
  std::vector<std::byte> after(kBytes);
  char word = 0;
  if (world.rank() == waiting) {
    work.wait_on(stream_of(device));
    world.send(std::span(&word, 1), 1 - waiting, Tag{1});
    if (world.rank() == 0) {
      const rondo::cuda::Current current(device.context);
      device.driver().must(device.driver().cuMemsetD8Async, address_of(buffer), static_cast<unsigned char>(0xee),
                           kBytes, device.stream.handle());
    } else {
      device.read(address_of(buffer), after);
    }
    device.stream.synchronize();
  } else {
    world.recv(std::span(&word, 1), waiting, Tag{1});
    if (rondo::testing::is_stand_in()) require(!work.test(), "its copy is over already");
    work.wait();
    if (world.rank() == 1) after = device.content(address_of(buffer), kBytes);
  }
  require(world.rank() == 0 || after == sent, "what was sent before the stream went on");
  barrier(world);
}

/// The driver refuses rank 0 the wait: the message goes on, and so does everything else.
void wait_is_refused(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer buffer(world, kBytes);
  const auto stream = stream_of(device);
  if (world.rank() == 0) {
    put(device, buffer, 0, pattern(0, 1, kBytes));
    Work sent = world.isend(buffer.span(stream), 1);
    rondo::testing::driver_refuses("cuStreamWaitEvent", 2, [&] { sent.wait_on(stream); });
    sent.wait();
  } else {
    world.recv(buffer.span(stream), 0);
    check(device, buffer, 0, pattern(0, 1, kBytes), "whose sender's wait was refused");
  }
  barrier(world);
}

/// What a stream waits for goes by the host, and its receiver comes long after the sender has left.
void left_for_later(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 50;
  const auto sent = pattern(0, 1, kBytes);
  const Buffer buffer(world, kBytes);
  if (world.rank() == 0) {
    put(device, buffer, 0, sent);
    world.isend(buffer.span(stream_of(device)), 1).wait_on(stream_of(device));
    device.stream.synchronize();
    world = Communicator();
    return;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < until) continue;
  world.recv(buffer.span(), 0);
  check(device, buffer, 0, sent, "what was sent before its sender left");
}

/// The same of many messages, in both directions, whose copies may be over before anybody asks.
void streams_wait_for_each_other(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 3000;
  const int other = 1 - world.rank();
  for (int round = 0; round < 100; ++round) {
    const Buffer out(world, kBytes), in(world, kBytes);
    put(device, out, 0, pattern(world.rank(), round, kBytes));
    Work sent = world.isend(out.span(stream_of(device)), other);
    Work received = world.irecv(in.span(stream_of(device)), other);
    sent.wait_on(stream_of(device));
    received.wait_on(stream_of(device));
    check(device, in, 0, pattern(other, round, kBytes), "one of many");
    if (round % 3 == 0) barrier(world);
  }
}

const rondo::testing::Acts kActs{
    {"around", around},
    {"many", many},
    {"many-expected", many_expected},
    {"copied", copied},
    {"to-itself", to_itself},
    {"in-a-row", in_a_row},
    {"in-groups", in_groups},
    {"threads", threads},
    {"sender-is-behind-with-old-events",
     [](Communicator& world) {
       const DeviceUnderTest device(own_device(world));
       in_a_row(world);
       sender_is_behind(world, false);
     }},
    {"sender-is-behind", [](Communicator& world) { sender_is_behind(world, false); }},
    {"sender-is-behind-to-host", [](Communicator& world) { sender_is_behind(world, true); }},
    {"receiver-is-behind", [](Communicator& world) { receiver_is_behind(world, false); }},
    {"receiver-is-behind-from-host", [](Communicator& world) { receiver_is_behind(world, true); }},
    {"streams-apart", streams_apart},
    {"sender-leaves", sender_leaves},
    {"stream-waits", stream_waits},
    {"sender-stream-waits", [](Communicator& world) { stream_waits_for_other(world, 0); }},
    {"wait-is-refused", wait_is_refused},
    {"left-for-later", left_for_later},
    {"streams-wait-for-each-other", streams_wait_for_each_other},
    {"receiver-stream-waits", [](Communicator& world) { stream_waits_for_other(world, 1); }},
};

}  // namespace

int main(int argc, char** argv) {
  return rondo::testing::run_act(argc, argv,
                                 {kActs, rondo::testing::message_memory(), rondo::testing::message_short(),
                                  rondo::testing::message_pieces(), rondo::testing::message_failures()});
}
