// A rank that sends and receives memory of a device: message_rank ACT. Started by rondo-run. Ends with 0 when all was
// as it must be, else it says what was not.
#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include <rondo/rondo.hpp>

#include "cuda/staging.hpp"
#include "runtime/rank_device.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

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
using rondo::testing::same_bits;
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
      require(same_bits(host, wanted), "device to host");

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
    require(same_bits(back, second), "what was copied to the host");
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
  Buffer& left = buffer;
  const Buffer elsewhere = std::move(left);
  require(buffer.size() == 0 && buffer.span().size() == 0, "nothing is left in what was moved from");
  refused(rondo::Errc::invalid_argument, "got 99 bytes of the host's memory, wanted 0",
          [&] { buffer.copy_from(host); });
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
    rondo::cuda::Staging staging(device.context);
    const auto pinned = staging.take(kBytes);
    std::copy(written.begin(), written.end(), pinned.data());
    HeldStream held(device);
    device.write(address_of(buffer), {pinned.data(), kBytes});
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
    if (to_host) return require(same_bits(host, written), "what the stream wrote");
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

const rondo::testing::Acts kActs{
    {"around", around},
    {"many", many},
    {"many-expected", many_expected},
    {"copied", copied},
    {"copied-in-a-group",
     [](Communicator& world) {
       Communicator reversed = world.split(0, -world.rank());
       copied(reversed);
     }},
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
    {"sender-leaves", sender_leaves},
};

}  // namespace

int main(int argc, char** argv) {
  return rondo::testing::run_act(
      argc, argv,
      {kActs, rondo::testing::message_memory(), rondo::testing::message_short(), rondo::testing::message_streams(),
       rondo::testing::message_pieces(), rondo::testing::message_threads(), rondo::testing::message_groups(),
       rondo::testing::message_failures(), rondo::testing::message_given_up()});
}
