// Messages of devices' memory that one side gives up, and what becomes of the memory then.
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {
namespace {

/// The stream of one of two ranks does not come to a message in the time that rank 1 has for it.
void late_stream(Communicator& world, int late) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer buffer(world, kBytes);
  device.fill(address_of(buffer), kBytes, std::byte(world.rank()));
  std::optional<HeldStream> held;
  const Options patient{.timeout = std::chrono::seconds(30)};  // rank 1 is not, with its message
  barrier(world, patient);
  if (world.rank() == late) held.emplace(device);
  Work work = world.rank() == 0 ? world.isend(buffer.span(stream_of(device)), 1)
                                : world.irecv(buffer.span(stream_of(device)), 0);
  if (world.rank() == 1) {
    const Error error = refused(Errc::timed_out, "recv: from rank 0 with tag 0", [&] { work.wait(); });
    require(error.rank() == 1 && error.peer() == 0, "the ranks of an error");
  }
  barrier(world, patient);
  held.reset();
  device.stream.synchronize();
  barrier(world, patient);
  for (int i = 0; i < 1000; ++i) (void)world.iprobe(0);
  barrier(world, patient);
  if (world.rank() == 0) {
    try {
      work.wait();  // as the receiver has given it up
    } catch (const Error& error) {
      require(error.code() == Errc::peer_failed, "the code of an error");
    }
    device.fill(address_of(buffer), kBytes, std::byte{2});
    return world.send(buffer.span(), 1);
  }
  check(device, buffer, 0, std::vector<std::byte>(kBytes, std::byte{1}), "nothing comes later");
  world.recv(buffer.span(), 0);
  check(device, buffer, 0, std::vector<std::byte>(kBytes, std::byte{2}), "the next message");
}

/// Nobody knows of a message on a device whether it is matched, so it is none that keeps ranks waiting in a circle.
void awaits_nobody(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  barrier(world);
  if (world.rank() == 0) {
    detail::Engine& engine = *CommunicatorAccess::engine(world);
    const detail::Progress::Entry entry(engine.progress());
    const detail::DeviceBytes bytes(buffer.span(stream_of(device)));
    const detail::SendMessage message(*engine.find_group(detail::kWorldId), 1, Tag{}, ElementType::bytes,
                                      {static_cast<const std::byte*>(bytes.data), bytes.size},
                                      engine.device().begin(bytes, "a test"));
    require(!message.done() && message.blocked_on().ranks.empty(), "it is under way");
  }
  barrier(world);
}

/// Rank 2 has dealt with rank 0, and leaves while that waits for a message that rank 1's stream has not come to.
void leaves_beside(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  if (world.rank() == 2) return world.send(buffer.span(), 0);
  if (world.rank() == 0) {
    world.recv(buffer.span(), 2);
    return void(world.recv(buffer.span(), 1));
  }
  std::optional<HeldStream> held(std::in_place, device);
  Work sent = world.isend(buffer.span(stream_of(device)), 0);
  char word = 0;
  const Error error = refused(Errc::peer_failed, "recv: from rank 2", [&] { world.recv(std::span(&word, 1), 2); });
  held.reset();
  sent.wait();
}

/// Gives up a message as an exception does that unwinds its caller.
void send_and_give_up(Communicator& world, const Buffer& buffer, Tag tag) {
  try {
    const Work sent = world.isend(buffer.span(), 1 - world.rank(), tag);
    throw std::runtime_error("changed its mind");
  } catch (const std::runtime_error&) {
    // As the caller does.
  }
}

/// Each rank in turn gives up a message that the other has heard of, and overwrites it; others are none the worse.
void given_up_before_the_receive(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  const Buffer first(world, kBytes), second(world, kBytes);
  const int other = 1 - world.rank();
  const auto exchange = [&](int sender) {
    if (world.rank() == sender) return world.send(second.span(), other);
    world.recv(second.span(), other);
  };
  device.fill(address_of(second), kBytes, std::byte{2});
  for (const int sender : {0, 1, 0, 1}) {
    device.fill(address_of(first), kBytes, std::byte{1});
    exchange(sender);  // the way is known
    barrier(world);
    if (world.rank() == sender) {
      Work sent = world.isend(second.span(), other, Tag{2});
      send_and_give_up(world, first, Tag{1});
      device.fill(address_of(first), kBytes, std::byte{3});
      barrier(world);
      sent.wait();
    } else {
      (void)world.probe(other, Tag{1});
      barrier(world);
      device.fill(address_of(second), kBytes, std::byte{0});
      world.recv(second.span(), other, Tag{2});
      check(device, second, 0, std::vector<std::byte>(kBytes, std::byte{2}), "a message that was not given up");
      refused(Errc::peer_failed, " with tag 1: the sender gave the message up",
              [&] { world.recv(first.span(), other, Tag{1}); });
    }
    barrier(world);
    exchange(sender);
  }
}

}  // namespace

Acts message_given_up() {
  return {
      {"awaits-nobody", awaits_nobody},
      {"leaves-beside", leaves_beside},
      {"given-up-before-the-receive", given_up_before_the_receive},
      {"sender-is-late", [](Communicator& world) { late_stream(world, 0); }},
      {"receiver-is-late", [](Communicator& world) { late_stream(world, 1); }},
  };
}

}  // namespace rondo::testing
