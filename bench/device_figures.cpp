#include "bench/device_figures.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <rondo/broadcast.hpp>
#include <rondo/cuda.hpp>

#include "bench/statistics.hpp"
#include "cuda/context.hpp"
#include "cuda/device.hpp"
#include "runtime/access.hpp"

namespace rondo::bench {
namespace {

using Clock = std::chrono::steady_clock;
using DeviceBytes = cuda::buffer<std::byte>;

constexpr std::size_t kCopyBytes = std::size_t{256} << 20;
constexpr std::size_t kStandInBytes = std::size_t{4} << 20;
constexpr int kCopiesInARow = 4;
constexpr int kRounds = 9;
/// A device that has been idle takes some time to come to its full clock.
constexpr std::chrono::milliseconds kWarmUp{300};

/// As the driver of the tests calls its devices.
bool is_stand_in(std::string_view name) { return name.starts_with("stand-in"); }

cuda::Address address_of(const DeviceBytes& buffer) { return cuda::address_of(buffer.data()); }

/// Seconds of a few copies in a row, the median.
double time_copies(const cuda::PrimaryContext& context, const DeviceBytes& to, const DeviceBytes& from,
                   std::chrono::milliseconds warm_up) {
  const cuda::Driver& driver = context.driver();
  const cuda::Current current(context);
  const cuda::Stream stream(context);
  std::vector<double> seconds;
  const auto begun = Clock::now();
  for (auto begin = begun; static_cast<int>(seconds.size()) < kRounds; begin = Clock::now()) {
    for (int i = 0; i < kCopiesInARow; ++i)
      driver.must(driver.cuMemcpyDtoDAsync, address_of(to), address_of(from), from.size(), stream.handle());
    stream.synchronize();
    const std::chrono::duration<double> taken = Clock::now() - begin;
    if (begin - begun >= warm_up) seconds.push_back(taken.count());
  }
  return summarise(std::move(seconds)).p50;
}

DeviceFigures measure(Communicator& world) {
  const DeviceBytes opens_the_device(world, 1);
  const cuda::PrimaryContext& context = CommunicatorAccess::engine(world)->device().opened()->context;
  const auto found = cuda::devices(context.driver());
  DeviceFigures figures;
  for (const cuda::DeviceFacts& facts : found) {
    if (facts.device == context.device()) figures.name = facts.name;
  }
  figures.stand_in = is_stand_in(figures.name);
  figures.copy_bytes = figures.stand_in ? kStandInBytes : kCopyBytes;
  const DeviceBytes to(world, figures.copy_bytes), from(world, figures.copy_bytes);
  const double moved = 2.0 * kCopiesInARow * static_cast<double>(figures.copy_bytes);
  figures.copy_GBps =
      moved / time_copies(context, to, from, figures.stand_in ? std::chrono::milliseconds(1) : kWarmUp) / 1e9;
  return figures;
}

}  // namespace

FoundDevices found_devices() {
  const cuda::Driver& driver = cuda::driver().driver.value();
  const auto all = cuda::devices(driver);
  const std::string& first = all.at(0).name;
  const std::string more = all.size() == 1 ? "" : fmt::format(" and {} more", all.size() - 1);
  return {first + more, driver_name(driver), is_stand_in(first)};
}

std::string driver_name(const cuda::Driver& driver) {
  int version = 0;
  driver.must(driver.cuDriverGetVersion, &version);
  return fmt::format("{}, of CUDA {}.{}", cuda::driver().library, version / 1000, version % 1000 / 10);
}

DeviceFigures measure_device(Communicator& world) {
  DeviceFigures figures;
  if (world.rank() == 0) figures = measure(world);
  broadcast(world, std::span(&figures.copy_GBps, 1), 0);
  return figures;
}

}  // namespace rondo::bench
