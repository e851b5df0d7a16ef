// Messages of memory of all kinds: of unknown side, freed and allocated again, mapped by others or not.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/cuda/virtual_memory.hpp"
#include "tests/support/process_end.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {
namespace {

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
  require(same_bits(host, wanted), "any device to any host");
  std::fill(host.begin(), host.end(), std::byte{0});
  world.sendrecv(on_host, right, into_device, left);
  check(device, in, 0, wanted, "any host to any device");
  device.fill(address_of(in), kBytes, std::byte{0});
  world.sendrecv(std::span(sent), right, into_device, left);
  check(device, in, 0, wanted, "host to any device");
  device.fill(address_of(in), kBytes, std::byte{0});
  world.sendrecv(out.span(stream_of(device)), right, into_host, left);
  require(same_bits(host, wanted), "device to any host");
  world.sendrecv(on_host, right, in.span(stream_of(device)), left);
  check(device, in, 0, wanted, "any host to device");
  std::vector<std::byte> whole(kBytes);
  world.sendrecv(on_device, right, std::span(whole), left);
  require(same_bits(whole, wanted), "any device to host");
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
    DeviceMemory out(device.context, kBytes), in(device.context, kBytes);
    const auto span = [](const DeviceMemory& memory) {
      return device_span<std::byte>(reinterpret_cast<std::byte*>(memory.address()), memory.bytes());
    };
    const cuda::registration out_known(world, span(out)), in_known(world, span(in));
    const auto sent = pattern(world.rank(), round, kBytes);
    device.write(out.address(), sent);
    device.stream.synchronize();
    world.sendrecv(span(out), right, span(in), left);
    require(same_bits(device.content(in.address(), kBytes), pattern(left, round, kBytes)), "registered memory");
  }
}

/// Memory that others cannot map goes through the host, again and again.
void unmappable(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto [right, left] = Neighbours(world);
  constexpr std::size_t kBytes = 5000;
  const Buffer in(world, kBytes);
  const Unmappable memory(device, kBytes);
  for (int round = 0; round < 5; ++round) {
    for (const cuda::Address address : memory.addresses()) {
      const auto sent = pattern(world.rank(), round, kBytes);
      device.write(address, sent);
      const device_span<std::byte> out(reinterpret_cast<std::byte*>(address), kBytes, stream_of(device));
      world.sendrecv(out, right, in.span(), left);
      check(device, in, 0, pattern(left, round, kBytes), "memory that cannot be mapped");
      // And into it.
      world.sendrecv(in.span(stream_of(device)), left, out, right);
      require(same_bits(device.content(address, kBytes), sent), "what came back into it");
      device.fill(address, kBytes, std::byte{0});
    }
  }
}

/// All of a buffer, from one rank to the same on another.
void pass(Communicator& world, const Buffer& buffer, int from, int to) {
  if (world.rank() == from) world.send(buffer.span(), to);
  if (world.rank() == to) world.recv(buffer.span(), from);
}

/// The same, with a pattern that comes once in a round.
void pass_pattern(Communicator& world, const DeviceUnderTest& device, const Buffer& buffer, int from, int to, int round,
                  const char* what) {
  const auto sent = pattern(from, round, buffer.size());
  if (world.rank() == from) put(device, buffer, 0, sent);
  pass(world, buffer, from, to);
  if (world.rank() == to) check(device, buffer, 0, sent, what);
}

/// More memory of others than rank 1 may map at a time, in turn.
void more_than_fits(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  std::vector<Buffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.emplace_back(world, 5000);
  for (int round = 0; round < 12; ++round) {
    const Buffer& buffer = buffers[static_cast<std::size_t>(round % 4)];
    for (int from = 0; from < world.size(); ++from) {
      if (from != 1) pass_pattern(world, device, buffer, from, 1, round, "memory that was mapped in place of other");
    }
  }
}

std::size_t mapped() { return driver_function<std::size_t()>("rondo_stand_in_mapped")(); }

/// Rank 1 prints which way memory takes whose first mappings the driver has refused, and how often it has mapped any.
void way_after_failure(Communicator& world) {
  const Buffer buffer(world, 5000);
  for (int round = 0; round < 5; ++round) pass(world, buffer, 0, 1);
  if (world.rank() != 1) return;
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const detail::Progress::Entry entry(engine.progress());
  std::printf("way: %s, mapped: %zu\n", engine.device_peers().way(0).name, mapped());
}

/// Memory of rank 0 of several sizes, which the driver counts differently.
void several_sizes(Communicator& world) {
  for (std::size_t i = 1; i <= 4; ++i) pass(world, Buffer(world, i << 21), 0, 1);
}

/// Rank 0 may map memory of rank 2, and none of rank 1: for whose that of rank 2 is closed once, and not again.
void beside_unmappable(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  for (int round = 0; round < 12; ++round) {
    for (const int from : {2, 1}) pass_pattern(world, device, buffer, from, 0, round, "memory of either rank");
  }
  require(world.rank() != 0 || mapped() == 2, "what can be mapped is mapped anew once");
}

/// Rank 1 may map one allocation at a time, and uses that of rank 0: what comes from rank 2 goes through the host,
/// until that is over.
void no_room(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  constexpr int kInVain = 5;
  const Buffer first(world, kBytes), second(world, kBytes);
  char word = 0;
  if (world.rank() == 0) {
    put(device, first, 0, pattern(0, 1, kBytes));
    HeldStream held(device);
    Work sent = world.isend(first.span(stream_of(device)), 1);
    world.send(std::span(&word, 1), 1, Tag{1});
    world.recv(std::span(&word, 1), 1, Tag{1});
    held.let_go();
    sent.wait();
  } else if (world.rank() == 2) {
    put(device, second, 0, pattern(2, 1, kBytes));
    for (int message = 0; message <= kInVain; ++message) world.send(second.span(), 1);
  } else {
    Work received = world.irecv(first.span(), 0);
    world.recv(std::span(&word, 1), 0, Tag{1});
    for (int message = 0; message < kInVain; ++message) world.recv(second.span(), 2);
    check(device, second, 0, pattern(2, 1, kBytes), "what went through the host");
    require(mapped() == 1, "there is room for one");
    require(!received.test(), "what is in use stays so");
    world.send(std::span(&word, 1), 0, Tag{1});
    received.wait();
    check(device, first, 0, pattern(0, 1, kBytes), "what was in use");
    device.fill(address_of(second), kBytes, std::byte{0});
    world.recv(second.span(), 2);
    check(device, second, 0, pattern(2, 1, kBytes), "what came into its place");
    require(mapped() == 2, "it was tried again");
  }
}

/// A rank that has not spoken of any memory gets that of the device with its number on this host.
void first_memory(Communicator& world) {
  int count = 0;
  const cuda::Driver& driver = driver_under_test();
  driver.must(driver.cuDeviceGetCount, &count);
  const Buffer buffer(world, 100);
  const int number = std::stoi(std::getenv("RONDO_LOCAL_RANK"));
  require(cuda::classify_anywhere(driver, address_of(buffer)).device == number % count, "whose memory it is");
}

/// What is refused says which rank's call it was, to whom, in the caller's words.
void refused_by_name(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 100);
  std::vector<std::byte> host(100);
  const int other = 1 - world.rank();
  const device_span<std::byte> wrong(host.data(), host.size());
  const auto named = [&](const std::string& operation, int peer, auto&& call) {
    const Error error = expect_error(call);
    require(error.operation() == operation, "the operation of an error");
    require(error.rank() == world.rank() && error.peer() == peer, "the ranks of an error");
    const std::string beginning = "rondo: rank " + std::to_string(world.rank()) + ": " + operation + ": ";
    require(std::string(error.what()).starts_with(beginning), "the beginning of an error");
  };
  named("send", other, [&] { world.send(wrong, other); });
  named("isend", other, [&] { world.isend(wrong, other).wait(); });
  named("recv", other, [&] { world.recv(wrong, other); });
  named("irecv", other, [&] { world.irecv(wrong, other).wait(); });
  named("sendrecv", other, [&] { world.sendrecv(buffer.span(), other, wrong, other); });
  named("sendrecv", other, [&] { world.sendrecv(wrong, other, buffer.span(), other); });
  named("sendrecv", 2, [&] { world.sendrecv(buffer.span(), 2, std::span(host), other); });
  named("send", 2, [&] { world.send(buffer.span(), 2); });
  named("isend", 2, [&] { world.isend(buffer.span(), 2).wait(); });
  named("recv", 2, [&] { world.recv(buffer.span(), 2); });
  named("irecv", 2, [&] { world.irecv(buffer.span(), 2).wait(); });
  named("sendrecv", 2, [&] { world.sendrecv(std::span(host), other, buffer.span(), 2); });
  named("send", 2, [&] { world.send(any_span(host.data(), host.size()), 2); });
  named("send", 2, [&] { world.send(any_span(buffer.data(), buffer.size()), 2); });
}

/// The first memory of a rank is managed, in a context of the second device for rank 1.
void managed_first(Communicator& world) {
  using cuda::Address;
  using cuda::Result;
  const DeviceUnderTest device(own_device(world));
  const int other = 1 - world.rank();
  constexpr std::size_t kBytes = 100;
  const cuda::Current current(device.context);
  Address managed = 0;
  require(driver_function<Result(Address*, std::size_t, unsigned)>("cuMemAllocManaged")(&managed, kBytes, 1) ==
              Result::success,
          "managed memory");
  const auto span = [](Address address) {
    return device_span<std::byte>(reinterpret_cast<std::byte*>(address), kBytes);
  };
  {
    const DeviceMemory own(device.context, kBytes);
    device.fill(managed, kBytes, std::byte{1});
    world.sendrecv(span(managed), other, span(own.address()), other);
    require(device.holds(own.address(), kBytes, std::byte{1}), "what was sent");
    const std::vector<std::byte> host(kBytes, std::byte{2});
    world.sendrecv(std::span(host), other, span(own.address()), other);
    require(device.holds(own.address(), kBytes, std::byte{2}), "what the host sent");
    std::vector<std::byte> back(kBytes);
    world.sendrecv(span(own.address()), other, std::span(back), other);
    require(same_bits(back, host), "what the host got");
    world = Communicator();
  }
  device.driver().must(device.driver().cuMemFree, managed);
}

/// Rank 0 frees memory of its own, which rank 1 has mapped, once it has left; rank 1 stays until rank 0 has ended.
void sender_leaves_and_frees(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 5000;
  ::pid_t sender = ::getpid();
  if (world.rank() == 0) {
    const DeviceMemory memory(device.context, kBytes);
    device.fill(memory.address(), kBytes, std::byte{1});
    world.send(device_span<std::byte>(reinterpret_cast<std::byte*>(memory.address()), kBytes), 1);
    world.send(std::span(&sender, 1), 1);
    world = Communicator();
    return;
  }
  const Buffer buffer(world, kBytes);
  world.recv(buffer.span(), 0);
  world.recv(std::span(&sender, 1), 0);
  char word = 0;
  refused(Errc::peer_failed, "has left", [&] { world.recv(std::span(&word, 1), 0, Tag{1}); });
  wait_for_end_of(sender);
}

}  // namespace

/// A rank frees what another cannot close now, whose stream waits for that very rank: it goes on, and the memory comes
/// back when there is none left, for which the driver's refusal stands.
void freed_later(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  detail::RankDevice& own = CommunicatorAccess::engine(world)->device();
  char word = 0;
  if (world.rank() == 1) {
    auto freed = std::make_optional<Buffer>(world, kBytes);
    world.send(freed->span(), 0);
    world.recv(std::span(&word, 1), 0, Tag{1});
    freed.reset();
    if (is_stand_in()) require(own.parked().size() == 1, "what is freed later");
    world.send(std::span(&word, 1), 0, Tag{1});
    const Buffer next(world, kBytes);
    if (is_stand_in()) require(own.parked().empty(), "freed when there was no memory left");
    put(device, next, 0, pattern(1, 1, kBytes));
    world.send(next.span(), 0, Tag{2});
  } else {
    const Buffer first(world, kBytes), second(world, kBytes);
    world.recv(first.span(), 1);
    HeldStream held(device);
    Work work = world.irecv(second.span(stream_of(device)), 1, Tag{2});
    world.send(std::span(&word, 1), 1, Tag{1});
    world.recv(std::span(&word, 1), 1, Tag{1});
    held.let_go();
    work.wait();
    check(device, second, 0, pattern(1, 1, kBytes), "what came meanwhile");
  }
}

/// To free memory waits for all of the device, where a stream waits for a rank that is waiting to hear of this one.
void freed_beside_a_wait(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 100'000;
  const Buffer buffer(world, kBytes);
  auto other = std::make_optional<Buffer>(world, kBytes);
  char word = 0;
  if (world.rank() == 1) {
    put(device, *other, 0, pattern(1, 1, kBytes));
    HeldStream held(device);
    device.copy(address_of(buffer), address_of(*other), kBytes);
    Work work = world.isend(buffer.span(stream_of(device)), 0);
    world.recv(std::span(&word, 1), 0, Tag{1});
    held.let_go();
    work.wait();
  } else {
    Work work = world.irecv(buffer.span(stream_of(device)), 1);
    work.wait_on(stream_of(device));
    other.reset();
    world.send(std::span(&word, 1), 1, Tag{1});
    check(device, buffer, 0, pattern(1, 1, kBytes), "what the stream waited for");
  }
}

Acts message_memory() {
  return {
      {"freed-beside-a-wait", freed_beside_a_wait},
      {"freed-later", freed_later},
      {"on-either-side", on_either_side},
      {"before-any-context", before_any_context},
      {"coming-and-going", coming_and_going},
      {"registered", registered},
      {"unmappable", unmappable},
      {"beside-unmappable", beside_unmappable},
      {"more-than-fits", more_than_fits},
      {"several-sizes", several_sizes},
      {"no-room", no_room},
      {"way-after-failure", way_after_failure},
      {"refused-by-name", refused_by_name},
      {"first-memory", first_memory},
      {"managed-first", managed_first},
      {"sender-leaves-and-frees", sender_leaves_and_frees},
  };
}

}  // namespace rondo::testing
