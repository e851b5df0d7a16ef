// A rank in a job of which rank 1 is killed while a copy is under way, or kernels of others wait for it: death_rank
// ACT. Started by rondo-run; on a real driver, whose copies take no seconds, only for acts in which a stream is held.
// Says when that was, and what it heard of it and when (moments.hpp). Ends with 0 when all was as it must be.
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/device_pieces.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/process/moments.hpp"
#include "tests/support/ranks.hpp"

namespace {

using rondo::Algorithm;
using rondo::Communicator;
using rondo::Work;
using rondo::testing::address_of;
using rondo::testing::Buffer;
using rondo::testing::DeviceUnderTest;
using rondo::testing::HeldStream;
using rondo::testing::own_device;
using rondo::testing::require;
using rondo::testing::say_now;
using rondo::testing::stream_of;

constexpr std::size_t kBytes = 5000;
constexpr std::size_t kManyPieces = 20 * rondo::detail::DevicePieces::kBytes;
constexpr int kVictim = 1;

/// A copy is under way on the device, as far as this process has queued it.
bool copying() {
  static auto* const copies = rondo::testing::driver_function<int()>("rondo_stand_in_copies");
  return copies() > 0;
}

/// Drives the work until then.
void await_copy(Work& work) {
  while (!copying()) require(!work.test(), "a copy that takes long");
}

void kill(::pid_t victim) {
  say_now("fault");
  ::kill(victim, SIGKILL);
}

void hear_of_it(Work& work) {
  try {
    work.wait();
  } catch (const rondo::Error& error) {
    return say_now(error);
  }
  require(false, "no error");
}

/// One copies, be it to itself or from itself, and kills rank 1, be it itself.
void message(Communicator& world, int sender, int copier, std::size_t bytes = kBytes) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, bytes);
  const int rank = world.rank();
  ::pid_t victim = ::getpid();
  if (rank == kVictim) {
    world.send(std::span(&victim, 1), 0, rondo::Tag{1});
  } else {
    world.recv(std::span(&victim, 1), kVictim, rondo::Tag{1});
  }
  Work work = rank == sender ? world.isend(buffer.span(), 1 - rank) : world.irecv(buffer.span(), 1 - rank);
  if (rank == copier) {
    await_copy(work);
    kill(victim);
  }
  hear_of_it(work);
  require(rank != copier || copying(), "nobody waited for the device");
}

/// Rank 1 copies, or its stream has not come to that, and is killed when rank 0's stream waits for it.
void stream_waits(Communicator& world, int sender, bool copies) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kBytes);
  const int rank = world.rank();
  const auto stream = stream_of(device);
  std::optional<HeldStream> held;
  if (rank == kVictim && !copies) held.emplace(device);
  Work work = rank == sender ? world.isend(buffer.span(stream), 1 - rank) : world.irecv(buffer.span(stream), 1 - rank);
  char word = 0;
  if (rank == kVictim) {
    world.recv(std::span(&word, 1), 0, rondo::Tag{1});
    if (copies) await_copy(work);
    kill(::getpid());
  }
  work.wait_on(stream);
  world.send(std::span(&word, 1), kVictim, rondo::Tag{1});
  Work heard = world.irecv(std::span(&word, 1), kVictim);
  hear_of_it(heard);
}

/// The same, and what rank 0 does when its stream waits; it has yet to hear of rank 1's death.
void while_stream_waits(Communicator& world,
                        const std::function<void(const Buffer&, rondo::CudaStream, Work& heard)>& act) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kBytes);
  const auto stream = stream_of(device);
  char word = 0;
  if (world.rank() == kVictim) {
    const HeldStream held(device);
    const Work sent = world.isend(buffer.span(stream), 0);
    world.recv(std::span(&word, 1), 0, rondo::Tag{1});
    kill(::getpid());
  }
  Work work = world.irecv(buffer.span(stream), kVictim);
  work.wait_on(stream);
  Work heard = world.irecv(std::span(&word, 1), kVictim);
  world.send(std::span(&word, 1), kVictim, rondo::Tag{1});
  act(buffer, stream, heard);
}

/// Rank 0 frees memory, which waits for all of its device.
void frees_meanwhile(Communicator& world) {
  while_stream_waits(world, [&world](const Buffer&, rondo::CudaStream, Work& heard) {
    { const Buffer other(world, kBytes); }
    hear_of_it(heard);
  });
}

/// Rank 0 copies on that stream.
void copies_meanwhile(Communicator& world) {
  while_stream_waits(world, [](const Buffer& buffer, rondo::CudaStream stream, Work& heard) {
    hear_of_it(heard);
    std::vector<std::byte> host(kBytes);
    try {
      buffer.copy_to(host, stream);
    } catch (const rondo::Error& error) {
      require(error.code() == rondo::Errc::peer_failed && error.facts().operation == "cuda::buffer::copy_to",
              "the error of a copy");
      return;
    }
    require(false, "no error of a copy");
  });
}

/// Rank 0's stream waits for rank 1, which is killed, and memory that it maps is to be closed: that of rank 1, or what
/// rank 2 frees when rank 1 dies. A driver may wait for the stream then.
void closes_meanwhile(Communicator& world, int owner) {
  const DeviceUnderTest device(own_device(world));
  const Buffer buffer(world, kBytes);
  Buffer mapped(world, kBytes);
  const int rank = world.rank();
  const auto stream = stream_of(device);
  if (rank == owner) world.send(mapped.span(), 0);
  if (rank == 0) world.recv(mapped.span(), owner);
  char word = 0;
  if (rank == kVictim) {
    const HeldStream held(device);
    const Work received = world.irecv(buffer.span(stream), 0);
    world.recv(std::span(&word, 1), 0, rondo::Tag{1});
    if (owner != kVictim) world.recv(std::span(&word, 1), owner, rondo::Tag{1});
    kill(::getpid());
  }
  Work heard = world.irecv(std::span(&word, 1), kVictim);
  if (rank == 0) {
    Work work = world.isend(buffer.span(stream), kVictim);
    work.wait_on(stream);
    for (int other = 1; other < world.size(); ++other) world.send(std::span(&word, 1), other, rondo::Tag{1});
  } else {
    world.recv(std::span(&word, 1), 0, rondo::Tag{1});
    world.send(std::span(&word, 1), kVictim, rondo::Tag{1});
    mapped = Buffer();
  }
  hear_of_it(heard);
}

/// All copy when rank 1 dies, what it has among it.
void all_gather_by(Communicator& world, Algorithm algorithm) {
  const DeviceUnderTest device(own_device(world));
  const auto size = static_cast<std::size_t>(world.size());
  const Buffer part(world, kBytes), all(world, kBytes * size);
  Work work = iall_gather(world, part.span(), all.span(), {algorithm});
  await_copy(work);
  int others = 0;
  if (world.rank() == kVictim) {
    // They have all come so far.
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank != kVictim) world.recv(std::span(&others, 1), rank, rondo::Tag{1});
    }
    kill(::getpid());
  }
  world.send(std::span(&others, 1), kVictim, rondo::Tag{1});
  hear_of_it(work);
  require(copying(), "nobody waited for the device");
}

/// Kernels of all wait on their devices for what rank 1's stream has not come to when it dies.
void all_reduce_by(Communicator& world, Algorithm algorithm) {
  const DeviceUnderTest device(own_device(world));
  const rondo::cuda::buffer<float> data(world, kBytes);
  device.fill(address_of(data), kBytes * sizeof(float), std::byte{0});
  std::optional<HeldStream> held;
  if (world.rank() == kVictim) held.emplace(device);
  Work work = iall_reduce(world, data.span(stream_of(device)), rondo::sum, {algorithm});
  // Returns when all have queued their part of it, and of what was called before.
  iall_reduce(world, data.span(stream_of(device)), rondo::sum, {algorithm}).wait_on(stream_of(device));
  barrier(world);
  if (world.rank() == kVictim) kill(::getpid());
  hear_of_it(work);
}

const rondo::testing::Acts kActs{
    {"sender-while-receiver-copies", [](Communicator& world) { message(world, 1, 0); }},
    {"receiver-while-it-copies", [](Communicator& world) { message(world, 0, 1); }},
    {"sender-while-it-copies", [](Communicator& world) { message(world, 1, 1); }},
    {"receiver-while-sender-copies", [](Communicator& world) { message(world, 0, 0); }},
    {"sender-while-receiver-copies-pieces", [](Communicator& world) { message(world, 1, 0, kManyPieces); }},
    {"receiver-while-it-copies-pieces", [](Communicator& world) { message(world, 0, 1, kManyPieces); }},
    {"sender-while-it-copies-pieces", [](Communicator& world) { message(world, 1, 1, kManyPieces); }},
    {"receiver-while-sender-copies-pieces", [](Communicator& world) { message(world, 0, 0, kManyPieces); }},
    {"receiver-for-a-stream", [](Communicator& world) { stream_waits(world, 0, true); }},
    {"sender-for-a-stream", [](Communicator& world) { stream_waits(world, 1, true); }},
    {"receiver-held-for-a-stream", [](Communicator& world) { stream_waits(world, 0, false); }},
    {"sender-held-for-a-stream", [](Communicator& world) { stream_waits(world, 1, false); }},
    {"frees-for-a-stream", frees_meanwhile},
    {"copies-for-a-stream", copies_meanwhile},
    {"closes-the-dead-for-a-stream", [](Communicator& world) { closes_meanwhile(world, kVictim); }},
    {"closes-another-for-a-stream", [](Communicator& world) { closes_meanwhile(world, 2); }},
    {"all-gather-mapped", [](Communicator& world) { all_gather_by(world, Algorithm::direct); }},
    {"all-gather-by-messages", [](Communicator& world) { all_gather_by(world, Algorithm::ring); }},
    {"all-reduce-mapped", [](Communicator& world) { all_reduce_by(world, Algorithm::sliced); }},
    {"all-reduce-by-messages", [](Communicator& world) { all_reduce_by(world, Algorithm::ring); }},
};

}  // namespace

int main(int argc, char** argv) { return rondo::testing::run_act(argc, argv, {kActs}); }
