// A rank that looks whether the device has got back all that was taken of it: memory_rank ACT. Started by rondo-run.
// Ends with 0 when all was as it must be, else it says what was not.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rondo/algorithms.hpp>
#include <rondo/rondo.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/message_buffers.hpp"
#include "tests/support/ranks.hpp"

namespace {

using rondo::Communicator;
using rondo::device_span;
using rondo::detail::Engine;
using rondo::detail::Progress;
using rondo::testing::address_of;
using rondo::testing::Buffer;
using rondo::testing::DeviceMemory;
using rondo::testing::DeviceUnderTest;
using rondo::testing::expect_error;
using rondo::testing::Neighbours;
using rondo::testing::require;
using rondo::testing::stream_of;

/// On a real driver longer than what it may keep for itself, so that one buffer which does not come back shows.
std::size_t count() { return rondo::testing::is_stand_in() ? 30'000 : std::size_t{64} << 20; }
constexpr std::size_t kKeptByDriver = std::size_t{32} << 20;

std::size_t free_bytes(const DeviceUnderTest& device) {
  const rondo::cuda::Current current(device.context);
  std::size_t free = 0, total = 0;
  device.driver().must(device.driver().cuMemGetInfo, &free, &total);
  return free;
}

/// On a real driver other processes take memory at the same time: as much is free at some time soon.
bool is_back(const DeviceUnderTest& device, std::size_t before) {
  if (rondo::testing::is_stand_in()) return free_bytes(device) == before;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (free_bytes(device) + kKeptByDriver < before) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::yield();
  }
  return true;
}

/// From device to device, to the host and back; of memory that is registered, too.
void exchange(Communicator& world, const DeviceUnderTest& device) {
  const auto [right, left] = Neighbours(world);
  const Buffer out(world, count()), in(world, count());
  std::vector<std::byte> host(count());
  world.sendrecv(out.span(), right, in.span(), left);
  world.sendrecv(out.span(stream_of(device)), right, std::span(host), left);
  world.sendrecv(std::span(host), right, in.span(), left);
  const DeviceMemory own(device.context, count());
  const device_span<std::byte> span(reinterpret_cast<std::byte*>(own.address()), count());
  const rondo::cuda::registration known(world, span);
  world.sendrecv(span, right, in.span(), left);
}

/// By every algorithm, some of which take memory of the device; and through the host.
void combine(Communicator& world, const DeviceUnderTest& device) {
  const rondo::cuda::buffer<float> data(world, count());
  device.fill(address_of(data), count() * sizeof(float), std::byte{0});
  const auto reduce = [&](rondo::Algorithm algorithm, auto op) {
    all_reduce(world, data.span(), op, {.algorithm = algorithm, .chunk_bytes = 4000});
  };
  for (const rondo::Algorithm algorithm : rondo::algorithms_of(rondo::Collective::all_reduce)) {
    reduce(algorithm, rondo::sum);
  }
  reduce(rondo::Algorithm::leader, rondo::sum);
  reduce(rondo::Algorithm::automatic, rondo::commuting([](float a, float b) { return a + b; }));
}

/// All of it, and at some time less memory is free than before and after.
void use(Communicator& world, const DeviceUnderTest& device) {
  const std::size_t before = free_bytes(device);
  exchange(world, device);
  combine(world, device);
  const Buffer last(world, count());
  if (rondo::testing::is_stand_in()) require(free_bytes(device) < before, "memory that is taken");
}

void of_all(const DeviceUnderTest& device) {
  Communicator world = rondo::init();
  use(world, device);
}

/// A buffer that is given back after the communicator of which it was.
void of_what_outlives_the_communicator(const DeviceUnderTest& device) {
  std::optional<Buffer> last;
  Communicator world = rondo::init();
  use(world, device);
  last.emplace(world, count());
  world = Communicator();
}

/// The fault: a rank that does not look what others say, for longer than these wait after a death (1 s), and for less
/// than they wait for one that lives (10 s), after which they leave without what they are owed.
void compute() { std::this_thread::sleep_for(std::chrono::milliseconds(2500)); }

/// Rank 1 leaves without a word: the others' calls fail, and what they took comes back all the same, though rank 2 has
/// no time for it for a while.
void of_what_failed(const DeviceUnderTest& device) {
  Communicator world = rondo::init();
  Communicator failing = world.dup();  // alone: rank 0 may still be at work on the other
  use(world, device);
  const rondo::cuda::buffer<float> data(world, count());
  if (world.rank() == 1) return;
  expect_error([&] { all_reduce(failing, data.span(), rondo::sum); });
  if (world.rank() == 2) compute();
}

/// The same, but it has left before anything is said to it of their memory.
void of_what_fails_for_want_of_a_rank(const DeviceUnderTest& device) {
  Communicator world = rondo::init();
  Communicator failing = world.dup();
  use(world, device);
  const rondo::cuda::buffer<float> data(world, count());
  if (world.rank() == 1) return;
  std::byte never{};
  expect_error([&] { world.recv(std::span(&never, 1), 1); });
  expect_error([&] { all_reduce(failing, data.span(), rondo::sum); });
}

/// Rank 0 leaves when the others have no time to close what they have of it.
void of_one_that_leaves_early(const DeviceUnderTest& device) {
  Communicator world = rondo::init();
  use(world, device);
  barrier(world);
  if (world.rank() != 0) compute();
}

/// Rank 0 maps memory that rank 1 takes for a while, and keeps for the next time.
void lend_scratch(Communicator& world) {
  constexpr std::size_t kBytes = 5000;
  if (world.rank() == 0) {
    const Buffer in(world, kBytes);
    (void)world.recv(in.span(), 1);
    return;
  }
  Engine& engine = *rondo::CommunicatorAccess::engine(world);
  std::shared_ptr<rondo::detail::DeviceScratch> scratch;
  {
    const Progress::Entry entry(engine.progress());
    scratch = engine.device().scratch(kBytes);
  }
  world.send(device_span<std::byte>(reinterpret_cast<std::byte*>(scratch->address), kBytes), 0);
  const Progress::Entry entry(engine.progress());
  scratch.reset();
}

/// Rank 1 leaves by an exception, which does not wait for the others for long, when they have what is its own mapped.
void of_one_that_does_not_wait(const DeviceUnderTest& device) {
  try {
    Communicator world = rondo::init();
    use(world, device);
    lend_scratch(world);
    barrier(world);
    if (world.rank() == 1) throw std::runtime_error("it has no time");
    compute();
  } catch (const std::runtime_error&) {
    // As a caller does.
  }
}

/// A call fails, and its rank leaves, long before the device has done what that had given it.
void of_what_the_device_still_does(const DeviceUnderTest& device) {
  const DeviceMemory part(device.context, count()), all(device.context, 2 * count());
  const auto span = [](const DeviceMemory& memory) {
    return device_span<std::byte>(reinterpret_cast<std::byte*>(memory.address()), memory.bytes());
  };
  Communicator world = rondo::init();
  rondo::Options options{rondo::Algorithm::direct};
  options.timeout = std::chrono::milliseconds(200);
  expect_error([&] { all_gather(world, span(part), span(all), options); });
}

const std::map<std::string, std::function<void(const DeviceUnderTest&)>> kActs{
    {"all", of_all},
    {"outlives-the-communicator", of_what_outlives_the_communicator},
    {"failed", of_what_failed},
    {"fails-for-want-of-a-rank", of_what_fails_for_want_of_a_rank},
    {"one-leaves-early", of_one_that_leaves_early},
    {"one-does-not-wait", of_one_that_does_not_wait},
    {"device-still-at-work", of_what_the_device_still_does},
};

}  // namespace

int main(int, char** argv) {
  try {
    const DeviceUnderTest device;
    const std::size_t before = free_bytes(device);
    kActs.at(argv[1])(device);
    require(is_back(device, before), "the device has not got back what was taken of it");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
