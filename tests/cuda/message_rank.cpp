// A rank that sends and receives memory of a device: message_rank ACT. Started by rondo-run. Ends with 0 when all was
// as it must be, else it says what was not.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/rank_device.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"

namespace {

using rondo::any_span;
using rondo::Communicator;
using rondo::device_span;
using rondo::Status;
using rondo::Tag;
using rondo::Work;
using rondo::testing::address_of;
using rondo::testing::Buffer;
using rondo::testing::check;
using rondo::testing::DeviceUnderTest;
using rondo::testing::HeldStream;
using rondo::testing::own_device;
using rondo::testing::pattern;
using rondo::testing::put;
using rondo::testing::refused;
using rondo::testing::require;
using rondo::testing::stream_of;

struct Neighbours {
  explicit Neighbours(const Communicator& world)
      : right((world.rank() + 1) % world.size()), left((world.rank() + world.size() - 1) % world.size()) {}
  int right, left;
};

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

/// Memory of which the caller does not say whose it is.
void on_either_side(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  constexpr std::size_t kBytes = 5000;
  const Buffer out(world, kBytes), in(world, kBytes);
  const auto sent = pattern(world.rank(), 0, kBytes), wanted = pattern(left, 0, kBytes);
  put(device, out, 0, sent);
  const any_span on_device(out.data(), kBytes, stream_of(device)), into_device(in.data(), kBytes, stream_of(device));
  std::vector<std::byte> host(kBytes);
  const any_span on_host(sent.data(), kBytes);
  const any_span into_host(host.data(), kBytes);
  require(on_device.on_device() && into_device.on_device(), "it is the device's");
  require(!on_host.on_device() && !into_host.on_device(), "it is the host's");
  require(!any_span(out.data(), 0).on_device(), "nothing is nobody's");

  require(world.sendrecv(on_device, right, into_host, left).bytes == kBytes, "the status");
  require(host == wanted, "any device to any host");
  world.sendrecv(on_host, right, into_device, left);
  check(device, in, 0, wanted, "any host to any device");
  device.fill(address_of(in), kBytes, std::byte{0});
  if (world.rank() % 2 == 0) {
    world.send(on_device, right);
    world.recv(into_device, left);
  } else {
    world.recv(into_device, left);
    world.send(on_device, right);
  }
  check(device, in, 0, wanted, "any device to any device");
}

/// Whose memory it is can be told without making a context on a device, which no call could here.
void before_any_context(Communicator&) {
  const std::byte byte{};
  require(!any_span(&byte, 1).on_device(), "it is the host's");
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
  const std::string wanted = "got 99 bytes of the host's memory, wanted 100";
  refused(rondo::Errc::invalid_argument, "cuda::buffer::copy_from: " + wanted, [&] { buffer.copy_from(host); });
  refused(rondo::Errc::invalid_argument, "cuda::buffer::copy_to: " + wanted, [&] { buffer.copy_to(host); });
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

/// Memory that comes and goes, most of it at the same addresses.
void coming_and_going(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  for (int round = 0; round < 20; ++round) {
    const std::size_t bytes = std::size_t{1000} << (round % 3 * 5);
    const Buffer out(world, bytes), in(world, bytes);
    put(device, out, 0, pattern(world.rank(), round, bytes));
    world.sendrecv(out.span(), right, in.span(), left);
    check(device, in, 0, pattern(left, round, bytes), "memory that comes and goes");
  }
}

/// The same of memory that is none of rondo's.
void registered(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  for (int round = 0; round < 5; ++round) {
    constexpr std::size_t kBytes = 70'000;
    rondo::testing::DeviceMemory out(device.context, kBytes), in(device.context, kBytes);
    const auto span = [](const rondo::testing::DeviceMemory& memory) {
      return device_span<std::byte>(reinterpret_cast<std::byte*>(memory.address()), memory.bytes());
    };
    const rondo::cuda::registration out_known(world, span(out)), in_known(world, span(in));
    const auto sent = pattern(world.rank(), round, kBytes);
    device.write(out.address(), sent);
    device.stream.synchronize();
    world.sendrecv(span(out), right, span(in), left);
    require(device.content(in.address(), kBytes) == pattern(left, round, kBytes), "registered memory");
  }
}

/// Memory that others cannot map goes through the host, again and again.
void unmappable(Communicator& world) {
  using rondo::cuda::Address;
  using rondo::cuda::Result;
  using rondo::cuda::StreamHandle;
  using rondo::testing::driver_function;
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  constexpr std::size_t kBytes = 5000;
  constexpr unsigned kForAll = 1;
  const Buffer in(world, kBytes);
  const rondo::cuda::Current current(device.context);
  Address pooled = 0, managed = 0;
  require(driver_function<Result(Address*, std::size_t, StreamHandle)>("cuMemAllocAsync")(
              &pooled, kBytes, device.stream.handle()) == Result::success,
          "memory of a pool");
  require(driver_function<Result(Address*, std::size_t, unsigned)>("cuMemAllocManaged")(&managed, kBytes, kForAll) ==
              Result::success,
          "managed memory");
  for (int round = 0; round < 5; ++round) {
    for (const Address address : {pooled, managed}) {
      const auto sent = pattern(world.rank(), round, kBytes);
      device.write(address, sent);
      const device_span<std::byte> out(reinterpret_cast<std::byte*>(address), kBytes, stream_of(device));
      world.sendrecv(out, right, in.span(), left);
      check(device, in, 0, pattern(left, round, kBytes), "memory that cannot be mapped");
    }
  }
  driver_function<Result(Address, StreamHandle)>("cuMemFreeAsync")(pooled, device.stream.handle());
  device.driver().must(device.driver().cuMemFree, managed);
}

/// The first memory of a rank is managed, in a context of the second device for rank 1.
void managed_first(Communicator& world) {
  using rondo::cuda::Address;
  using rondo::cuda::Result;
  const DeviceUnderTest device(own_device(world));
  const int other = 1 - world.rank();
  constexpr std::size_t kBytes = 100;
  const rondo::cuda::Current current(device.context);
  Address managed = 0;
  require(rondo::testing::driver_function<Result(Address*, std::size_t, unsigned)>("cuMemAllocManaged")(
              &managed, kBytes, 1) == Result::success,
          "managed memory");
  const auto span = [](Address address) {
    return device_span<std::byte>(reinterpret_cast<std::byte*>(address), kBytes);
  };
  {
    const rondo::testing::DeviceMemory own(device.context, kBytes);
    device.fill(managed, kBytes, std::byte{1});
    world.sendrecv(span(managed), other, span(own.address()), other);
    require(device.holds(own.address(), kBytes, std::byte{1}), "what was sent");
    const std::vector<std::byte> host(kBytes, std::byte{2});
    world.sendrecv(std::span(host), other, span(own.address()), other);
    require(device.holds(own.address(), kBytes, std::byte{2}), "what the host sent");
    std::vector<std::byte> back(kBytes);
    world.sendrecv(span(own.address()), other, std::span(back), other);
    require(back == host, "what the host got");
    world = Communicator();
  }
  device.driver().must(device.driver().cuMemFree, managed);
}

/// More messages than there are events, one at a time.
void in_a_row(Communicator& world) {
  const auto [right, left] = Neighbours(world);
  const Buffer out(world, 100), in(world, 100);
  for (std::size_t i = 0; i < 2 * rondo::detail::RankDevice::kEvents; ++i) {
    world.sendrecv(out.span(), right, in.span(), left);
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

/// Rank 0 frees memory of its own, which rank 1 has mapped, once it has left; rank 1 stays until rank 0 has ended.
void sender_leaves_and_frees(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  ::pid_t sender = ::getpid();
  if (world.rank() == 0) {
    const rondo::testing::DeviceMemory memory(device.context, kBytes);
    device.fill(memory.address(), kBytes, std::byte{1});
    world.send(device_span<std::byte>(reinterpret_cast<std::byte*>(memory.address()), kBytes), 1);
    world.send(std::span(&sender, 1), 1);
    world = Communicator();
    return;
  }
  const Buffer buffer(world, kBytes);
  world.recv(buffer.span(), 0);
  world.recv(std::span(&sender, 1), 0);
  pollfd ended{static_cast<int>(::syscall(SYS_pidfd_open, sender, 0)), POLLIN, 0};
  char word = 0;
  refused(rondo::Errc::peer_failed, "has left", [&] { world.recv(std::span(&word, 1), 0, Tag{1}); });
  require(::poll(&ended, 1, -1) == 1, "the sender has ended");
  ::close(ended.fd);
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

const rondo::testing::Acts kActs{
    {"around", around},
    {"on-either-side", on_either_side},
    {"before-any-context", before_any_context},
    {"many", many},
    {"copied", copied},
    {"to-itself", to_itself},
    {"coming-and-going", coming_and_going},
    {"registered", registered},
    {"unmappable", unmappable},
    {"managed-first", managed_first},
    {"in-a-row", in_a_row},
    {"threads", threads},
    {"sender-is-behind", [](Communicator& world) { sender_is_behind(world, false); }},
    {"sender-is-behind-to-host", [](Communicator& world) { sender_is_behind(world, true); }},
    {"receiver-is-behind", [](Communicator& world) { receiver_is_behind(world, false); }},
    {"receiver-is-behind-from-host", [](Communicator& world) { receiver_is_behind(world, true); }},
    {"sender-leaves", sender_leaves},
    {"sender-leaves-and-frees", sender_leaves_and_frees},
    {"stream-waits", stream_waits},
};

}  // namespace

int main(int argc, char** argv) {
  return rondo::testing::run_act(argc, argv, kActs, rondo::testing::message_failures());
}
