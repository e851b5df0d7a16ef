// Collectives on devices' memory that go through the host, in pieces.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/collective_buffers.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/each_collective.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {
namespace {

// Of which no kernel is.
constexpr auto kPlus = [](std::int64_t a, std::int64_t b) { return a + b; };
constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t told_by_stand_in(const char* function) { return driver_function<std::size_t()>(function)(); }

/// Elements of `Bytes` bytes.
template <std::size_t Bytes>
struct Odd {
  Odd() = default;
  explicit Odd(float value) { std::fill_n(bytes, Bytes, static_cast<std::byte>(value)); }
  friend Odd operator+(Odd a, const Odd& b) {
    const auto value = [](std::byte byte) { return std::to_integer<unsigned>(byte); };
    for (std::size_t i = 0; i < Bytes; ++i) a.bytes[i] = static_cast<std::byte>(value(a.bytes[i]) + value(b.bytes[i]));
    return a;
  }
  std::byte bytes[Bytes];
};

template <std::size_t Bytes>
void around_border(Communicator& world) {
  const std::size_t piece = piece_bytes(world) / Bytes;
  const std::size_t of_block = piece / static_cast<std::size_t>(world.size());
  for (const std::size_t length : {piece, of_block}) {
    for (const std::size_t count : {length - 1, length, length + 1, 2 * length, 3 * length + 1}) {
      each_collective<Odd<Bytes>>(
          world, [](Odd<Bytes> a, Odd<Bytes> b) { return a + b; }, count);
    }
  }
}

/// Vectors and blocks that are about as long as a piece, or a few; elements that fill none, or are longer.
void around_the_border(Communicator& world) {
  around_border<3>(world);
  around_border<24>(world);
  for (const std::size_t count : {0, 1, 2}) {
    each_collective<Odd<2001>>(
        world, [](const Odd<2001>&, const Odd<2001>& b) { return b; }, count);
  }
}

/// Where ranks are on several hosts all goes through the host.
void on_several_hosts(Communicator& world) {
  Communicator apart = on_hosts(world, {0, 0, 1, 1});
  const DeviceUnderTest device(own_device(world));
  const Options options{Algorithm::two_level};
  const std::size_t count = 3 * piece_bytes(world) / sizeof(std::int64_t);
  Both<std::int64_t> all(world, device, 4 * count, world.rank()), part(world, device, count, world.rank() + 1);
  const auto both = [&](const char* name, const auto& call) {
    call(all.device(), part.device());
    call(all.host(), part.host());
    all.check(name);
    part.check(name);
  };
  both("all_gather", [&](auto whole, auto own) { all_gather(apart, own, whole, options); });
  both("all_reduce", [&](auto, auto own) { all_reduce(apart, own, commuting(kPlus), options); });
  all.fill(world.rank());
  both("all_to_all", [&](auto whole, auto) { all_to_all(apart, whole, options); });
  both("reduce_scatter", [&](auto whole, auto own) { reduce_scatter(apart, whole, own, commuting(kPlus), options); });
}

/// Drives the work until something is so. It does not end before.
void drive_until(Work& work, const std::function<bool()>& is_so, const char* what) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_so()) {
    require(!work.test(), "it was done before it could be");
    require(std::chrono::steady_clock::now() < until, what);
  }
}

/// Rank 1's device is late, which rank 0's copies do not wait for: of its pieces two are on the host then, and no more.
/// Then rank 0's device stops copying, and what is on the host is combined all the same, the second piece while the
/// first result is on its way back.
void pieces_overlap(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), second(own_device(world));
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const std::size_t piece = piece_bytes(world) / sizeof(std::int64_t);
  Both<std::int64_t> in(world, device, 6 * piece, world.rank()), out(world, device, 6 * piece, 7);
  std::atomic<std::size_t> combined = 0;
  const auto plus = [&](std::int64_t a, std::int64_t b) {
    ++combined;
    return a + b;
  };
  const auto copied = [before = told_by_stand_in("rondo_stand_in_copied_to_host")] {
    return told_by_stand_in("rondo_stand_in_copied_to_host") - before;
  };
  std::optional<HeldStream> held;
  if (world.rank() == 1) held.emplace(device);
  Work work = ireduce(world, in.device(), out.device(), plus, 0, {Algorithm::linear});
  if (world.rank() == 0) {
    drive_until(
        work, [&] { return copied() == 2 * piece_bytes(world); }, "pieces ahead");
    for (int i = 0; i < 1000; ++i) require(!work.test(), "it was done before it could be");
    require(copied() == 2 * piece_bytes(world) && combined == 0, "no more than two pieces");
    {
      const detail::Progress::Entry entry(engine.progress());
      held.emplace(second, engine.device().opened()->copies.stream());
    }
  }
  std::int64_t go = 1;
  if (world.rank() == 1) {
    world.recv(std::span(&go, 1), 0);
    held->let_go();
  } else {
    world.send(std::span(&go, 1), 1);
    drive_until(
        work, [&] { return combined == 2 * piece; }, "a piece while the last is copied back");
    held->let_go();
  }
  work.wait();
  reduce(world, in.host(), out.host(), kPlus, 0);
  out.check("the sum");
}

/// Rank 1's device does not take what has come: it stays as it is, though rank 0 has sent all that follows.
void results_are_kept(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), second(own_device(world));
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  Both<std::int64_t> data(world, device, 6 * piece_bytes(world) / sizeof(std::int64_t), world.rank());
  std::optional<HeldStream> held;
  if (world.rank() == 1) {
    const detail::Progress::Entry entry(engine.progress());
    held.emplace(second, engine.device().opened()->copies.stream());
  }
  Work work = ibroadcast(world, data.device(), 0, {Algorithm::direct});
  char word = 0;
  if (world.rank() == 0) {
    work.wait();
    world.send(std::span(&word, 1), 1);
  } else {
    world.recv(std::span(&word, 1), 0);
    for (int i = 0; i < 1000; ++i) require(!work.test(), "it was done before it could be");
    held->let_go();
    work.wait();
  }
  broadcast(world, data.host(), 0);
  data.check("what was sent");
}

/// However long they are, and several at a time.
void little_is_pinned(Communicator& world) {
  const std::size_t count = 6 * piece_bytes(world) / sizeof(std::int64_t);
  const DeviceUnderTest device(own_device(world));
  const auto ranks = static_cast<std::size_t>(world.size());
  Both<std::int64_t> all(world, device, count * ranks, world.rank()), part(world, device, count, world.rank() + 1);
  const auto both = [&](const char* name, Both<std::int64_t>& out, const auto& call) {
    call(all.device(), part.device());
    call(all.host(), part.host());
    out.check(name);
    // Two pieces of what is given, two of what is got; and two that were kept, of what one of two ranks has of a piece.
    require(told_by_stand_in("rondo_stand_in_most_pinned") <= 5 * piece_bytes(world), "what is pinned");
  };
  const Options by_messages{Algorithm::ring};
  both("all_reduce", all, [&](auto whole, auto) { all_reduce(world, whole, kPlus); });
  both("all_reduce by messages", all, [&](auto whole, auto) { all_reduce(world, whole, sum, by_messages); });
  both("reduce", all, [&](auto whole, auto) { reduce(world, whole, kPlus, 0); });
  both("broadcast", all, [&](auto whole, auto) { broadcast(world, whole, 1); });
  both("scatter", part, [&](auto whole, auto own) { scatter(world, whole, own, 0); });
  both("gather", all, [&](auto whole, auto own) { gather(world, own, whole, 1); });
  both("all_gather", all, [&](auto whole, auto own) { all_gather(world, own, whole); });
  both("all_gather by messages", all, [&](auto whole, auto own) { all_gather(world, own, whole, by_messages); });
  both("reduce_scatter", part, [&](auto whole, auto own) { reduce_scatter(world, whole, own, kPlus); });
  Both<std::int64_t> out(world, device, count * ranks, 7);
  all_to_all(world, all.device(), out.device());
  all_to_all(world, all.host(), out.host());
  both("all_to_all", out, [](auto, auto) {});
}

/// A stream that has nothing to do with it is behind all the time.
void beside_a_held_stream(Communicator& world) {
  constexpr std::size_t kBytes = 80 * kMiB;
  const DeviceUnderTest device(own_device(world)), other(own_device(world));
  using Long = std::array<std::byte, 4096>;
  const cuda::buffer<Long> data(world, kBytes / sizeof(Long));
  device.fill(address_of(data), kBytes, std::byte{1});
  {
    const HeldStream held(other);
    all_reduce(world, data.span(stream_of(device)), [](const Long& a, const Long&) { return a; });
    // Nobody leaves before all are done.
    barrier(world);
  }
  require(device.holds(address_of(data), kBytes, std::byte{1}), "what was first");
}

/// Time is up while the device is at its copies: it keeps the memory of the host that they need until it has done them.
void memory_stays_held(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), second(own_device(world));
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const std::size_t bytes = piece_bytes(world);
  Both<std::int64_t> data(world, device, 3 * bytes / sizeof(std::int64_t), world.rank());
  Communicator failing = world.dup();
  const auto free_bytes = [&] {
    const detail::Progress::Entry entry(engine.progress());
    return engine.device().opened()->staging.free_bytes();
  };
  std::optional<HeldStream> held;
  {
    const detail::Progress::Entry entry(engine.progress());
    held.emplace(second, engine.device().opened()->copies.stream());
  }
  Options soon;
  soon.timeout = std::chrono::seconds(3);
  barrier(world);
  expect_error([&] { all_reduce(failing, data.device(), kPlus, soon); });
  require(free_bytes() == 0, "what the device is at is given back");
  held->let_go();
  detail::Progress::Entry entry(engine.progress());
  const auto all = [&] { return engine.device().opened()->staging.free_bytes() > 0; };
  require(engine.progress().until(entry, all, engine.clock().now() + std::chrono::seconds(20)), "it is given back");
}

}  // namespace

Acts collective_pieces() {
  return {
      {"around-the-border", around_the_border}, {"pieces-overlap", pieces_overlap},
      {"little-is-pinned", little_is_pinned},   {"results-are-kept", results_are_kept},
      {"on-several-hosts", on_several_hosts},   {"beside-a-held-stream", beside_a_held_stream},
      {"memory-stays-held", memory_stays_held},
  };
}

}  // namespace rondo::testing
