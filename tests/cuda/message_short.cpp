// Short messages of a device's memory, which go without their receiver.
#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include <rondo/rondo.hpp>

#include "cuda/staging.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {
namespace {

constexpr std::size_t kShort = 1000;

/// Every rank sends before any receives, again and again.
void all_send_first(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  const Buffer out(world, kShort), in(world, kShort);
  for (int round = 0; round < 20; ++round) {
    put(device, out, 0, pattern(world.rank(), round, kShort));
    world.send(out.span(stream_of(device)), right);
    // What is sent may be overwritten.
    device.fill(address_of(out), kShort, std::byte{0});
    barrier(world);
    world.recv(in.span(stream_of(device)), left);
    check(device, in, 0, pattern(left, round, kShort), "sent before anybody received");
  }
}

/// Rank 0's stream keeps its first message back; the next one overtakes it nowhere, those with other tags do.
void in_its_turn(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kShort);
  const auto first = pattern(0, 1, kShort), second = pattern(0, 2, kShort);
  char word = 0;
  if (world.rank() == 0) {
    cuda::Staging staging(device.context);
    const auto pinned = staging.take(kShort);
    std::copy(first.begin(), first.end(), pinned.data());
    HeldStream held(device);
    device.write(address_of(buffer), {pinned.data(), kShort});
    Work sent = world.isend(buffer.span(stream_of(device)), 1);
    world.send(std::span(second), 1);
    world.send(std::span(&word, 1), 1, Tag{1});
    world.recv(std::span(&word, 1), 1, Tag{1});
    require(!sent.test(), "it was taken before it was written");
    held.let_go();
    sent.wait();
    return;
  }
  world.recv(std::span(&word, 1), 0, Tag{1});
  const auto waiting = world.iprobe(0, Tag{0});
  require(waiting && waiting->bytes == kShort, "what was announced is seen");
  std::vector<std::byte> host(kShort);
  Work to_device = world.irecv(buffer.span(), 0), to_host = world.irecv(std::span(host), 0);
  to_host.wait();
  require(!to_device.test(), "it came before it was written");
  world.send(std::span(&word, 1), 0, Tag{1});
  to_device.wait();
  check(device, buffer, 0, first, "what was sent first");
  require(host == second, "what was sent second");
}

/// Rank 0 gives up what its stream keeps back, once before rank 1 asks for it and once after.
void taken_back(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kShort);
  device.fill(address_of(buffer), kShort, std::byte{4});
  char word = 0;
  const auto tell = [&] { world.send(std::span(&word, 1), 1 - world.rank(), Tag{1}); };
  const auto hear = [&] { world.recv(std::span(&word, 1), 1 - world.rank(), Tag{1}); };
  if (world.rank() == 0) {
    for (const bool asked : {false, true}) {
      HeldStream held(device);
      try {
        const Work sent = world.isend(buffer.span(stream_of(device)), 1);
        if (asked) tell();
        if (asked) hear();
        throw std::runtime_error("changed its mind");
      } catch (const std::runtime_error&) {
        tell();
      }
      held.let_go();
      if (!asked) hear();
    }
    world.send(buffer.span(stream_of(device)), 1);
    return;
  }
  hear();
  require(!world.iprobe(0, Tag{0}), "what was taken back is no message");
  tell();
  hear();
  const Buffer in(world, kShort);
  Work received = world.irecv(in.span(), 0);
  tell();
  refused(Errc::peer_failed, "recv: from rank 0 with tag 0: the sender gave the message up", [&] { received.wait(); });
  hear();
  world.recv(in.span(), 0);
  check(device, in, 0, std::vector<std::byte>(kShort, std::byte{4}), "what came in the end");
}

}  // namespace

Acts message_short() {
  return {{"all-send-first", all_send_first}, {"in-its-turn", in_its_turn}, {"taken-back", taken_back}};
}

}  // namespace rondo::testing
