// A rank whose collectives work on memory of a device: collective_rank ACT. Started by rondo-run. Ends with 0 when all
// was as it must be, else it says what was not.
#include <csignal>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"

namespace {

using rondo::Communicator;
using rondo::device_span;
using rondo::Work;
using rondo::testing::DeviceUnderTest;
using rondo::testing::HeldStream;
using rondo::testing::require;
using rondo::testing::stream_of;

/// The same elements on the host and on the device.
template <typename T>
class Both {
 public:
  Both(Communicator& world, const DeviceUnderTest& device, std::size_t count, int first)
      : device_(device), host_(count), memory_(world, count) {
    for (std::size_t i = 0; i < count; ++i) host_[i] = static_cast<T>(static_cast<float>((i * 7 + first * 5) % 61));
    device_.write(address(), std::as_bytes(std::span(host_)));
    device_.stream.synchronize();
  }

  std::span<T> host() { return host_; }
  device_span<T> device() { return memory_.span(stream_of(device_)); }
  void check(const char* what) {
    const auto wanted = std::as_bytes(std::span(host_));
    const auto got = device_.content(address(), wanted.size());
    require(std::equal(got.begin(), got.end(), wanted.begin()), what);
  }

 private:
  rondo::cuda::Address address() { return reinterpret_cast<std::uintptr_t>(memory_.data()); }

  const DeviceUnderTest& device_;
  std::vector<T> host_;
  rondo::cuda::buffer<T> memory_;
};

/// Every collective, on the host and on the device: the same bits.
template <typename T, typename Op>
void each(Communicator& world, Op op, std::size_t count) {
  const DeviceUnderTest device;
  const int rank = world.rank();
  const auto ranks = static_cast<std::size_t>(world.size());
  const int root = world.size() - 1;
  const auto made = [&](std::size_t elements, int first = 0) { return Both<T>(world, device, elements, rank + first); };
  auto all = made(count * ranks), all_of = made(count * ranks, 3), part = made(count, 1), part_of = made(count, 2);

  const auto on_both = [&](const char* name, Both<T>& out, const auto& call) {
    call(std::true_type{});
    call(std::false_type{});
    out.check(name);
  };
  const auto pick = [](auto on_device, Both<T>& both) {
    if constexpr (on_device) {
      return both.device();
    } else {
      return both.host();
    }
  };
  on_both("all_reduce", all_of, [&](auto d) { all_reduce(world, pick(d, all), pick(d, all_of), op); });
  on_both("all_reduce in place", all_of, [&](auto d) { all_reduce(world, pick(d, all_of), op); });
  on_both("all_reduce of one buffer given twice", all_of,
          [&](auto d) { all_reduce(world, pick(d, all_of), pick(d, all_of), op); });
  on_both("reduce", all_of, [&](auto d) { reduce(world, pick(d, all), pick(d, all_of), op, root); });
  on_both("all_reduce that is waited for", all_of, [&](auto d) { iall_reduce(world, pick(d, all_of), op).wait(); });
  on_both("reduce_scatter", part_of, [&](auto d) { reduce_scatter(world, pick(d, all), pick(d, part_of), op); });
  on_both("broadcast", part, [&](auto d) { broadcast(world, pick(d, part), root); });
  on_both("gather", all_of, [&](auto d) { gather(world, pick(d, part_of), pick(d, all_of), root); });
  on_both("all_gather", all_of, [&](auto d) { all_gather(world, pick(d, part_of), pick(d, all_of)); });
  on_both("all_gather in place", all, [&](auto d) { all_gather(world, pick(d, all)); });
  on_both("scatter", part_of, [&](auto d) { scatter(world, pick(d, all), pick(d, part_of), root); });
  on_both("all_to_all", all_of, [&](auto d) { all_to_all(world, pick(d, all), pick(d, all_of)); });
  on_both("all_to_all in place", all_of, [&](auto d) { all_to_all(world, pick(d, all_of)); });
  std::vector<std::size_t> counts(ranks, count);
  on_both("all_gather by counts", all_of,
          [&](auto d) { all_gather(world, pick(d, part), pick(d, all_of), std::span<const std::size_t>(counts)); });
  on_both("the own block of the output given as input", all, [&](auto d) {
    const auto whole = pick(d, all);
    all_gather(world, whole.subspan(static_cast<std::size_t>(rank) * count, count), whole);
  });
}

void all(Communicator& world) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{70'001}}) {
    each<float>(world, rondo::sum, count);
  }
  each<rondo::bfloat16>(world, rondo::sum, 999);
  each<std::int32_t>(world, rondo::max, 999);
  each<double>(world, rondo::avg, 999);
  each<std::int64_t>(
      world, [](std::int64_t a, std::int64_t b) { return a * 3 + b; }, 999);
}

/// What a stream has yet to write is combined, what it has yet to read is not overwritten, and the host waits for
/// nothing but the result.
void in_order_of_the_stream(Communicator& world) {
  const DeviceUnderTest device;
  constexpr std::size_t kCount = 3000;
  const rondo::cuda::buffer<float> in(world, kCount), out(world, kCount);
  const auto address = [](const auto& buffer) { return reinterpret_cast<std::uintptr_t>(buffer.data()); };
  device.fill(address(in), kCount * 4, std::byte{0});
  device.fill(address(out), kCount * 4, std::byte{0x11});
  const std::vector<float> written(kCount, static_cast<float>(world.rank() + 1));
  std::vector<std::byte> before(kCount * 4);
  HeldStream held(device);
  device.write(address(in), std::as_bytes(std::span(written)));
  device.read(address(out), before);
  Work work =
      iall_reduce(world, device_span<const float>(in.span(stream_of(device))), out.span(stream_of(device)), rondo::sum);
  for (int i = 0; i < 1000; ++i) require(!work.test(), "it was done before it could be");
  held.let_go();
  work.wait_on(stream_of(device));
  std::vector<std::byte> after(kCount * 4);
  device.read(address(out), after);
  device.stream.synchronize();
  require(before == std::vector<std::byte>(kCount * 4, std::byte{0x11}), "what was there before");
  const auto size = static_cast<float>(world.size());
  const std::vector<float> wanted(kCount, size * (size + 1) / 2);
  const auto bytes = std::as_bytes(std::span(wanted));
  require(std::equal(after.begin(), after.end(), bytes.begin()), "what came after on the stream");
}

/// A copy fails on rank 1: all hear of it.
void copy_fails(Communicator& world) {
  const DeviceUnderTest device;
  const rondo::cuda::buffer<float> data(world, 1000);
  device.fill(reinterpret_cast<std::uintptr_t>(data.data()), 4000, std::byte{0});
  try {
    all_reduce(world, data.span(), rondo::sum);
  } catch (const rondo::Error& error) {
    std::printf("%s\n", error.what());
    return;
  }
  throw std::runtime_error("no error");
}

/// Rank 1 dies while the others wait for it.
void one_dies(Communicator& world) {
  const DeviceUnderTest device;
  const rondo::cuda::buffer<float> data(world, 1000);
  device.fill(reinterpret_cast<std::uintptr_t>(data.data()), 4000, std::byte{0});
  barrier(world);
  if (world.rank() == 1) ::raise(SIGKILL);
  copy_fails(world);
}

const rondo::testing::Acts kActs{
    {"all", all},
    {"in-order-of-the-stream", in_order_of_the_stream},
    {"copy-fails", copy_fails},
    {"one-dies", one_dies},
};

}  // namespace

int main(int argc, char** argv) { return rondo::testing::run_act(argc, argv, kActs); }
