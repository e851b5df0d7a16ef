// A rank that looks whether the device has got back all that was taken of it: memory_rank ACT. Started by rondo-run.
// Ends with 0 when all was as it must be, else it says what was not.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
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
using rondo::testing::address_of;
using rondo::testing::Buffer;
using rondo::testing::DeviceMemory;
using rondo::testing::DeviceUnderTest;
using rondo::testing::Neighbours;
using rondo::testing::require;
using rondo::testing::stream_of;

constexpr std::size_t kCount = 30'000;

std::size_t free_bytes(const DeviceUnderTest& device) {
  const rondo::cuda::Current current(device.context);
  std::size_t free = 0, total = 0;
  device.driver().must(device.driver().cuMemGetInfo, &free, &total);
  return free;
}

/// From device to device, to the host and back; of memory that is registered, too.
void exchange(Communicator& world, const DeviceUnderTest& device) {
  const auto [right, left] = Neighbours(world);
  const Buffer out(world, kCount), in(world, kCount);
  std::vector<std::byte> host(kCount);
  world.sendrecv(out.span(), right, in.span(), left);
  world.sendrecv(out.span(stream_of(device)), right, std::span(host), left);
  world.sendrecv(std::span(host), right, in.span(), left);
  const DeviceMemory own(device.context, kCount);
  const device_span<std::byte> span(reinterpret_cast<std::byte*>(own.address()), kCount);
  const rondo::cuda::registration known(world, span);
  world.sendrecv(span, right, in.span(), left);
}

/// By every algorithm, some of which take memory of the device; and through the host.
void combine(Communicator& world, const DeviceUnderTest& device) {
  const rondo::cuda::buffer<float> data(world, kCount);
  device.fill(address_of(data), kCount * sizeof(float), std::byte{0});
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
  const Buffer last(world, kCount);
  require(free_bytes(device) < before, "memory that is taken");
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
  last.emplace(world, kCount);
  world = Communicator();
}

/// Rank 1 leaves without a word: the others' calls fail, and what they took comes back all the same.
void of_what_failed(const DeviceUnderTest& device) {
  Communicator world = rondo::init();
  use(world, device);
  const rondo::cuda::buffer<float> data(world, kCount);
  if (world.rank() == 1) return;
  rondo::testing::expect_error([&] { all_reduce(world, data.span(), rondo::sum); });
}

const std::map<std::string, std::function<void(const DeviceUnderTest&)>> kActs{
    {"all", of_all},
    {"outlives-the-communicator", of_what_outlives_the_communicator},
    {"failed", of_what_failed},
};

}  // namespace

int main(int, char** argv) {
  try {
    const DeviceUnderTest device;
    const std::size_t before = free_bytes(device);
    kActs.at(argv[1])(device);
    require(free_bytes(device) == before, "the device has not got back what was taken of it");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
