// A rank that sends and receives memory of a device: message_rank ACT. Started by rondo-run. Ends with 0 when all was
// as it must be, else it says what was not.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/rank_device.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"

namespace {

using rondo::Communicator;
using rondo::device_span;
using rondo::Status;
using rondo::Tag;
using rondo::Work;
using rondo::testing::DeviceUnderTest;
using rondo::testing::HeldStream;
using rondo::testing::own_device;
using rondo::testing::require;
using rondo::testing::stream_of;

using Buffer = rondo::cuda::buffer<std::byte>;

rondo::cuda::Address address_of(const Buffer& buffer) {
  return static_cast<rondo::cuda::Address>(reinterpret_cast<std::uintptr_t>(buffer.data()));
}

/// What rank `from` sends in this round.
std::vector<std::byte> pattern(int from, int round, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>(i * 7 + i / 256 + static_cast<std::size_t>(from * 31 + round * 3));
  }
  return made;
}

void put(const DeviceUnderTest& device, const Buffer& buffer, std::size_t offset, const std::vector<std::byte>& bytes) {
  device.write(address_of(buffer) + offset, bytes);
  device.stream.synchronize();
}

void check(const DeviceUnderTest& device, const Buffer& buffer, std::size_t offset,
           const std::vector<std::byte>& wanted, const char* what) {
  require(device.content(address_of(buffer) + offset, wanted.size()) == wanted, what);
}

template <typename Call>
void refused(rondo::Errc code, const std::string& text, const Call& call) {
  try {
    call();
  } catch (const rondo::Error& error) {
    std::printf("%s\n", error.what());
    require(error.code() == code, "the code of an error");
    require(std::string(error.what()).find(text) != std::string::npos, "the text of an error");
    return;
  }
  throw std::runtime_error("no error: " + text);
}

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

/// The driver refuses one of its copies.
void copy_to_host_fails(Communicator& world) {
  const Buffer buffer(world, 100);
  std::vector<std::byte> host(100);
  refused(rondo::Errc::cuda, "cuda::buffer::copy_to: cuMemcpyDtoHAsync_v2: got CUDA_ERROR_ILLEGAL_ADDRESS (700)",
          [&] { buffer.copy_to(host); });
  buffer.copy_to(host);
}

/// To itself, and among elements of other types.
void to_itself(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  rondo::cuda::buffer<float> out(world, 1000), in(world, 1000);
  device.fill(reinterpret_cast<std::uintptr_t>(out.data()), 4000, std::byte{5});
  device.fill(reinterpret_cast<std::uintptr_t>(in.data()), 4000, std::byte{6});
  world.sendrecv(out.span(), world.rank(), in.span(), world.rank());
  require(device.holds(reinterpret_cast<std::uintptr_t>(in.data()), 4000, std::byte{5}), "to itself");
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

void mistakes(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 100);
  std::vector<std::byte> host(100);
  const int other = 1 - world.rank();
  refused(rondo::Errc::invalid_argument, "memory of the host",
          [&] { world.isend(device_span<std::byte>(host.data(), host.size()), other).wait(); });
  refused(rondo::Errc::invalid_argument, "there the allocation ends",
          [&] { world.irecv(device_span<std::byte>(buffer.data(), std::size_t{3} << 20), other).wait(); });
  refused(rondo::Errc::invalid_argument, "destination rank 2", [&] { world.send(buffer.span(), 2); });
  Work sent = world.isend(buffer.span(), other);
  refused(rondo::Errc::truncated, "got 100 bytes, wanted at most 99",
          [&] { world.recv(buffer.span().subspan(0, 99), other); });
  sent.wait();
}

/// Streams that are being captured into a graph are refused, and nothing is left of that.
void captured(Communicator& world) {
  using rondo::cuda::Result;
  using rondo::cuda::StreamHandle;
  using rondo::testing::driver_function;
  constexpr int kRelaxed = 2;
  const DeviceUnderTest device, captured;
  constexpr std::size_t kBytes = 5000;
  const Buffer out(world, kBytes), in(world, kBytes);
  const int other = 1 - world.rank();
  put(device, out, 0, pattern(world.rank(), 0, kBytes));
  const auto stream = stream_of(captured);
  const auto capture = [&](auto&& call) {
    refused(rondo::Errc::invalid_argument, "got a stream that is being captured into a graph", call);
  };
  const rondo::cuda::Current current(captured.context);
  require(driver_function<Result(StreamHandle, int)>("cuStreamBeginCapture_v2")(captured.stream.handle(), kRelaxed) ==
              Result::success,
          "the capture begins");
  capture([&] { world.isend(out.span(stream), other).wait(); });
  capture([&] { world.irecv(in.span(stream), other).wait(); });
  capture([&] { all_reduce(world, out.span(stream), rondo::bor); });
  capture([&] { all_gather(world, out.span().subspan(0, 10), in.span(stream).subspan(0, 20)); });
  Work received = world.irecv(in.span(), other);
  capture([&] { received.wait_on(stream); });
  void* graph = nullptr;
  require(driver_function<Result(StreamHandle, void**)>("cuStreamEndCapture")(captured.stream.handle(), &graph) ==
              Result::success,
          "nothing has been captured that cannot be");
  require(driver_function<Result(void*)>("cuGraphDestroy")(graph) == Result::success, "the graph is whole");
  world.send(out.span(stream), other);
  received.wait_on(stream);
  captured.stream.synchronize();
  check(device, in, 0, pattern(other, 0, kBytes), "once it is not captured any more");
}

/// Rank 1 dies: with a message for it, or while others still want what it has sent.
void receiver_dies(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  barrier(world);
  if (world.rank() == 1) ::raise(SIGKILL);
  refused(rondo::Errc::peer_failed, "rank 1 died", [&] { world.send(buffer.span(), 1); });
}

void sender_dies(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  char word = 0;
  if (world.rank() == 1) {
    HeldStream held(device);
    Work sent = world.isend(buffer.span(stream_of(device)), 0);
    world.send(std::span(&word, 1), 0, Tag{1});
    world.recv(std::span(&word, 1), 0, Tag{1});
    ::raise(SIGKILL);
  }
  Work received = world.irecv(buffer.span(), 1);
  world.recv(std::span(&word, 1), 1, Tag{1});
  world.send(std::span(&word, 1), 1, Tag{1});
  refused(rondo::Errc::peer_failed, "rank 1 died", [&] { received.wait(); });
}

/// A copy fails on the device of rank 1, by injection.
void copy_fails(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  if (world.rank() == 0) return world.send(buffer.span(), 1);
  refused(rondo::Errc::cuda, "cuMemcpyDtoDAsync_v2", [&] { world.recv(buffer.span(), 0); });
}

void no_driver(Communicator& world) {
  require(!rondo::cuda::available() && !rondo::cuda::why_unavailable().empty(), "there is none");
  std::byte byte{};
  refused(rondo::Errc::cuda, "there is no CUDA driver",
          [&] { world.isend(device_span<std::byte>(&byte, 1), 0).wait(); });
  refused(rondo::Errc::cuda, "there is no CUDA driver", [&] { Buffer(world, 1); });
}

/// Over PCIe the sender copies: that fails is its error, and the receiver hears that nothing comes.
void write_fails(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  if (world.rank() == 1) {
    refused(rondo::Errc::cuda, "cuMemcpyDtoDAsync", [&] { world.send(buffer.span(stream_of(device)), 0); });
  } else {
    refused(rondo::Errc::peer_failed, "the sender gave the message up",
            [&] { world.recv(buffer.span(stream_of(device)), 1); });
  }
}

const rondo::testing::Acts kActs{
    {"write-fails", write_fails},
    {"around", around},
    {"many", many},
    {"copied", copied},
    {"copy-to-host-fails", copy_to_host_fails},
    {"to-itself", to_itself},
    {"coming-and-going", coming_and_going},
    {"registered", registered},
    {"unmappable", unmappable},
    {"in-a-row", in_a_row},
    {"threads", threads},
    {"sender-is-behind", [](Communicator& world) { sender_is_behind(world, false); }},
    {"sender-is-behind-to-host", [](Communicator& world) { sender_is_behind(world, true); }},
    {"receiver-is-behind", [](Communicator& world) { receiver_is_behind(world, false); }},
    {"receiver-is-behind-from-host", [](Communicator& world) { receiver_is_behind(world, true); }},
    {"sender-leaves", sender_leaves},
    {"stream-waits", stream_waits},
    {"mistakes", mistakes},
    {"captured", captured},
    {"receiver-dies", receiver_dies},
    {"sender-dies", sender_dies},
    {"copy-fails", copy_fails},
    {"no-driver", no_driver},
};

}  // namespace

int main(int argc, char** argv) { return rondo::testing::run_act(argc, argv, kActs); }
