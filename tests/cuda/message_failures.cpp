// What goes wrong with messages of devices' memory, and what is to be heard of it.
#include <csignal>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {
namespace {

void mistakes(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 100);
  std::vector<std::byte> host(100);
  const int other = 1 - world.rank();
  refused(Errc::invalid_argument, "memory of the host",
          [&] { world.isend(device_span<std::byte>(host.data(), host.size()), other).wait(); });
  refused(Errc::invalid_argument, "there the allocation ends",
          [&] { world.irecv(device_span<std::byte>(buffer.data(), std::size_t{3} << 20), other).wait(); });
  refused(Errc::invalid_argument, "cuda::buffer: got 2305843009213693952 elements of 8 bytes",
          [&] { cuda::buffer<double>(world, std::size_t{1} << 61); });
  refused(Errc::invalid_argument, "destination rank 2", [&] { world.send(buffer.span(), 2); });
  Work sent = world.isend(buffer.span(), other);
  refused(Errc::truncated, "got 100 bytes, wanted at most 99",
          [&] { world.recv(buffer.span().subspan(0, 99), other); });
  sent.wait();
}

/// Rank 0 frees what rank 1 has not received yet, or a collective has not taken.
void freed_too_soon(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer kept(world, 100);
  const std::string freed = "the memory was freed before it was sent";
  char word = 0;
  if (world.rank() == 0) {
    Buffer buffer(world, 100);
    Work sent = world.isend(buffer.span(), 1);
    buffer = Buffer();
    // While the other, or the device, has not been done with it in time, it is kept.
    while (!CommunicatorAccess::engine(world)->device().parked().empty()) Buffer(world, 1);
    world.send(std::span(&word, 1), 1, Tag{1});
    refused(Errc::cuda, freed, [&] { sent.wait(); });
  } else {
    world.recv(std::span(&word, 1), 0, Tag{1});
    refused(Errc::peer_failed, "the sender gave the message up", [&] { world.recv(kept.span(), 0); });
  }
}

void freed_under_a_collective(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  Buffer buffer(world, 4'000'000);
  Work work = ibroadcast(world, buffer.span(), 0, {.algorithm = Algorithm::chain, .chunk_bytes = 4000});
  if (world.rank() == 0) buffer = Buffer();
  try {
    work.wait();  // which may have been soon enough
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}

/// Whatever the driver refuses, and when: each of these is right, or an Error that says so, or that the other rank has
/// had one.
void come_what_may(Communicator& world, std::size_t count) {
  const int other = 1 - world.rank();
  try {
    cuda::buffer<int> ours(world, count);
    const cuda::buffer<int> theirs(world, count);
    const std::vector<int> own(count, world.rank() + 1), wanted(count, other + 1), both(count, 3);
    std::vector<int> got(count);
    ours.copy_from(own);
    world.sendrecv(ours.span(), other, theirs.span(), other);
    theirs.copy_to(got);
    require(got == wanted, "what the other has sent");
    world.sendrecv(ours.span(), other, std::span(got), other);
    require(got == wanted, "what the host has got");
    all_reduce(world, ours.span(), sum);
    ours.copy_to(got);
    require(got == both, "the sum");
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    require(error.code() == Errc::cuda || error.code() == Errc::peer_failed, "the code of an error");
  }
}

/// The context of rank 1 is lost, by injection, in the middle of a message.
void context_is_lost(Communicator& world) {
  const int rank = world.rank();
  const Neighbours around(world);
  const std::size_t bytes = 5000;
  Buffer buffer(world, bytes);
  const auto wanted = pattern(0, 1, bytes);
  const auto on_host = [&](int round) {
    const auto own = pattern(rank, round, bytes);
    auto got = own;
    world.sendrecv(std::span(own), around.right, std::span(got), around.left);
    require(got == pattern(around.left, round, bytes), "a message of the host");
    std::vector<int> sums(1000, rank + 1);
    all_reduce(world, std::span(sums), sum);
    require(sums == std::vector<int>(1000, 6), "a sum on the host");
  };
  if (rank == 0) buffer.copy_from(wanted);
  on_host(1);
  if (rank == 0) world.send(buffer.span(), 1);
  if (rank == 1) {
    refused(Errc::cuda, "cu", [&] { world.recv(buffer.span(), 0); });
    on_host(2);
    refused(Errc::cuda, "cu", [&] { world.isend(buffer.span(), 0).wait(); });
    refused(Errc::cuda, "cu", [&] { world.irecv(buffer.span(), 2).wait(); });
    refused(Errc::cuda, "cu", [&] { Buffer(world, 1); });
  } else {
    on_host(2);
  }
  // The others' devices go on.
  if (rank == 0) world.send(buffer.span(), 2);
  if (rank == 2) {
    world.recv(buffer.span(), 0);
    std::vector<std::byte> got(bytes);
    buffer.copy_to(got);
    require(got == wanted, "a message between the others");
  }
  on_host(3);
}

/// Streams that are being captured into a graph are refused, and nothing is left of that.
void captured(Communicator& world) {
  const DeviceUnderTest device, captured;
  constexpr std::size_t kBytes = 5000;
  const Buffer out(world, kBytes), in(world, kBytes);
  const int other = 1 - world.rank();
  put(device, out, 0, pattern(world.rank(), 0, kBytes));
  const auto stream = stream_of(captured);
  const auto capture = [&](auto&& call) {
    refused(Errc::invalid_argument, "got a stream that is being captured into a graph", call);
  };
  const cuda::Current current(captured.context);
  const Capture begun(captured, captured.stream.handle(), cuda::CaptureMode::relaxed);
  capture([&] { world.isend(out.span(stream), other).wait(); });
  capture([&] { world.irecv(in.span(stream), other).wait(); });
  capture([&] { all_reduce(world, out.span(stream), bor); });
  capture([&] { all_gather(world, out.span().subspan(0, 10), in.span(stream).subspan(0, 20)); });
  Work received = world.irecv(in.span(), other);
  capture([&] { received.wait_on(stream); });
  begun.end();
  world.send(out.span(stream), other);
  received.wait_on(stream);
  captured.stream.synchronize();
  check(device, in, 0, pattern(other, 0, kBytes), "once it is not captured any more");
}

/// So is the default stream while it would have to wait for one that is being captured; others are not.
void captured_for_default(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::Driver& driver = device.driver();
  constexpr std::size_t kBytes = 5000;
  const Buffer out(world, kBytes), in(world, kBytes);
  const int other = 1 - world.rank();
  put(device, out, 0, pattern(world.rank(), 0, kBytes));
  const cuda::Current current(device.context);
  cuda::StreamHandle waited_for = nullptr;
  driver.must(driver.cuStreamCreateWithPriority, &waited_for, 0U, 0);
  const Capture begun(device, waited_for, cuda::CaptureMode::relaxed);
  const auto capture = [&](auto&& call) { refused(Errc::invalid_argument, "got the default stream while", call); };
  capture([&] { world.isend(out.span(), other).wait(); });
  capture([&] { world.irecv(in.span(), other).wait(); });
  capture([&] { all_reduce(world, out.span(), bor); });
  const auto own = stream_of(device);
  world.sendrecv(out.span(own), other, in.span(own), other);
  check(device, in, 0, pattern(other, 0, kBytes), "on another stream meanwhile");
  overwrite(device, in);
  device.stream.synchronize();
  begun.end();
  world.sendrecv(out.span(), other, in.span(), other);
  check(device, in, 0, pattern(other, 0, kBytes), "on the default stream again");
  driver.must(driver.cuStreamDestroy, waited_for);
}

/// Rank 1 dies: with a message for it, or while others still want what it has sent.
void receiver_dies(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  barrier(world);
  if (world.rank() == 1) ::raise(SIGKILL);
  refused(Errc::peer_failed, "rank 1 died", [&] { world.send(buffer.span(), 1); });
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
  refused(Errc::peer_failed, "rank 1 died", [&] { received.wait(); });
}

/// A stream does not come to copies of a buffer in time, which end with it.
void copy_is_late(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto wanted = pattern(0, 0, 5000);
  Buffer buffer(world, wanted.size());
  buffer.copy_from(wanted);
  std::vector<std::byte> host(wanted.size());
  const std::string text = "the device did not copy it within 0.2 s (RONDO_TIMEOUT)";
  {
    const HeldStream held(device);
    refused(Errc::timed_out, "cuda::buffer::copy_to: " + text, [&] { buffer.copy_to(host, stream_of(device)); });
    refused(Errc::timed_out, "cuda::buffer::copy_from: " + text, [&] { buffer.copy_from(host, stream_of(device)); });
  }
  device.stream.synchronize();
  buffer.copy_to(host, stream_of(device));
  require(same_bits(host, wanted), "nothing comes later");
}

/// Rank 1 tells where rank 0 may write, which is nowhere.
void false_place(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  if (world.rank() == 0) {
    refused(Errc::peer_failed, "rank 0 lost its connection to rank 1: it spoke of region 99, which there is not",
            [&] { world.send(buffer.span(), 1); });
    return;
  }
  const Status status = world.probe(0);
  {
    detail::Engine& engine = *CommunicatorAccess::engine(world);
    const detail::Progress::Entry entry(engine.progress());
    const detail::Unexpected* const offer = CommunicatorAccess::group(world, "").find_unexpected(0, status.tag);
    detail::DeviceWrite nowhere;
    nowhere.place.region = 99;
    nowhere.message = offer->header.id;
    engine.device_peers().introduce(0);
    engine.peer(0).tell_of_device(detail::encode_device_frame(nowhere));
  }
  refused(Errc::peer_failed, "rank 0", [&] {
    std::vector<std::byte> host(5000);
    world.recv(std::span(host), 0);
  });
}

/// A copy fails on the device of rank 1, by injection.
void copy_fails(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  if (world.rank() == 0) return world.send(buffer.span(), 1);
  driver_refuses("cuMemcpyDtoDAsync_v2", 700, [&] { world.recv(buffer.span(), 0); });
}

/// The driver does not say whose memory it is, by injection.
void side_is_not_told(Communicator& world) {
  const Buffer buffer(world, 100);
  driver_refuses("cuDevicePrimaryCtxGetState", 2, [&] { any_span(buffer.data(), 100); });
}

/// There is no memory left, by injection.
void no_memory(Communicator& world) {
  driver_refuses("cuMemAlloc_v2", 2, [&] { Buffer(world, 1); });
  Buffer(world, 1);
}

/// There is little memory left for a collective, by injection: from the fourth allocation on, three times.
void no_memory_for_scratch(Communicator& world) {
  constexpr std::size_t kMega = std::size_t{1} << 20;
  const Buffer buffer(world, 1);
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  const detail::Progress::Entry entry(engine.progress());
  detail::RankDevice& device = engine.device();
  const auto& kept = device.opened()->scratch;
  const auto is_kept = [&](std::size_t bytes) { return kept.contains(bytes); };
  (void)device.scratch(8 * kMega);
  (void)device.scratch(kMega);
  require(kept.size() == 2 && is_kept(8 * kMega) && is_kept(2 * kMega), "what is kept");
  const auto larger = device.scratch(3 * kMega);
  require(kept.size() == 1 && is_kept(2 * kMega), "a larger one is taken where there is no memory for another");
  (void)device.scratch(5 * kMega);
  require(kept.size() == 1 && is_kept(6 * kMega), "what is kept is freed for one of no more than is wanted");
}

/// There is none, by injection, from the third allocation on, while memory that was given up beside a stream that is
/// late has not been freed.
void parked_memory_for_scratch(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  auto given_up = std::make_optional<Buffer>(world, 5000);
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  {
    HeldStream held(device);
    Work sent = world.isend(buffer.span(stream_of(device)), 0);
    given_up.reset();
    held.let_go();
    world.recv(buffer.span(), 0);
    sent.wait();
  }
  const detail::Progress::Entry entry(engine.progress());
  detail::RankDevice& own = engine.device();
  require(own.parked().size() == 1, "what is freed later");
  (void)own.scratch(1);
  require(own.parked().empty(), "freed when there was no memory left");
}

/// Two of the calls that a send begins with, by injection.
void begin_fails(Communicator& world, const std::string& function) {
  const Buffer buffer(world, 5000);
  driver_refuses(function, 2, [&] { world.isend(buffer.span(), 0).wait(); });
}

void no_driver(Communicator& world) {
  require(!cuda::available() && !cuda::why_unavailable().empty(), "there is none");
  std::byte byte{};
  refused(Errc::cuda, "there is no CUDA driver", [&] { world.isend(device_span<std::byte>(&byte, 1), 0).wait(); });
  refused(Errc::cuda, "there is no CUDA driver", [&] { Buffer(world, 1); });
  refused(Errc::cuda, "there is no CUDA driver", [&] { broadcast(world, device_span<std::byte>(&byte, 1), 0); });
  // The way on is by the host.
  broadcast(world, std::span(&byte, 1), 0);
  require(!any_span(&byte, 1).on_device(), "all memory is the host's");
}

/// Over PCIe the sender copies: that fails is its error, and the receiver hears that nothing comes.
void write_fails(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, 5000);
  if (world.rank() == 1) {
    refused(Errc::cuda, "cuMemcpyDtoDAsync", [&] { world.send(buffer.span(stream_of(device)), 0); });
  } else {
    refused(Errc::peer_failed, "the sender gave the message up",
            [&] { world.recv(buffer.span(stream_of(device)), 1); });
  }
}

/// The driver refuses one of its copies.
void copy_to_host_fails(Communicator& world) {
  const Buffer buffer(world, 100);
  std::vector<std::byte> host(100);
  driver_refuses("cuMemcpyDtoHAsync_v2", 700, [&] { buffer.copy_to(host); });
  buffer.copy_to(host);
}

}  // namespace

Acts message_failures() {
  return {
      {"write-fails", write_fails},
      {"copy-to-host-fails", copy_to_host_fails},
      {"freed-too-soon", freed_too_soon},
      {"freed-under-a-collective", freed_under_a_collective},
      {"mistakes", mistakes},
      {"captured", captured},
      {"captured-for-default", captured_for_default},
      {"come-what-may", [](Communicator& world) { come_what_may(world, 1000); }},
      {"come-what-may-in-pieces", [](Communicator& world) { come_what_may(world, 300'000); }},
      {"context-is-lost", context_is_lost},
      {"receiver-dies", receiver_dies},
      {"sender-dies", sender_dies},
      {"copy-is-late", copy_is_late},
      {"false-place", false_place},
      {"copy-fails", copy_fails},
      {"side-is-not-told", side_is_not_told},
      {"no-memory", no_memory},
      {"no-memory-for-scratch", no_memory_for_scratch},
      {"parked-memory-for-scratch", parked_memory_for_scratch},
      {"stream-is-not-told", [](Communicator& world) { begin_fails(world, "cuStreamIsCapturing"); }},
      {"record-fails", [](Communicator& world) { begin_fails(world, "cuEventRecord"); }},
      {"no-driver", no_driver},
  };
}

}  // namespace rondo::testing
