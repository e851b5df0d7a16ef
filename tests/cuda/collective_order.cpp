// Collectives on devices that come in order: after what their streams had, before what those get, and one after the
// other.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <rondo/rondo.hpp>

#include "cuda/staging.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/ranks.hpp"

namespace rondo::testing {
namespace {

/// What a stream has yet to write is combined, what it has yet to read is not overwritten, and the host waits for
/// nothing but the result.
template <typename Op>
void in_order_of_the_stream(Communicator& world, Op op) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kCount = 3000;
  constexpr std::size_t kBytes = kCount * sizeof(float);
  const cuda::buffer<float> in(world, kCount), out(world, kCount);
  device.fill(address_of(in), kBytes, std::byte{0});
  device.fill(address_of(out), kBytes, std::byte{0x11});
  cuda::Staging staging(device.context);
  const auto written = staging.take(kBytes), before = staging.take(kBytes), after = staging.take(kBytes);
  std::fill_n(reinterpret_cast<float*>(written.data()), kCount, static_cast<float>(world.rank() + 1));
  HeldStream held(device);
  device.write(address_of(in), {written.data(), kBytes});
  device.read(address_of(out), {before.data(), kBytes});
  Work work = iall_reduce(world, device_span<const float>(in.span(stream_of(device))), out.span(stream_of(device)), op);
  for (int i = 0; i < 1000; ++i) require(!work.test(), "it was done before it could be");
  held.let_go();
  work.wait_on(stream_of(device));
  device.read(address_of(out), {after.data(), kBytes});
  device.stream.synchronize();
  require(std::count(before.data(), before.data() + kBytes, std::byte{0x11}) == kBytes, "what was there before");
  const auto size = static_cast<float>(world.size());
  const std::vector<float> wanted(kCount, size * (size + 1) / 2);
  const auto bytes = std::as_bytes(std::span(wanted));
  require(std::equal(bytes.begin(), bytes.end(), after.data()), "what came after on the stream");
}

void in_order_on_the_device(Communicator& world) { in_order_of_the_stream(world, sum); }

/// There is no kernel for it.
void in_order_on_the_host(Communicator& world) {
  in_order_of_the_stream(world, [](float a, float b) { return a + b; });
}

/// Each rank's device in turn is late: the others' wait for what it is to be given, and what they are given is there
/// for their own streams only then, whichever was the first to wait. No host waits.
void late_devices(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), second(own_device(world));
  constexpr std::size_t kCount = 2000;
  constexpr std::size_t kBytes = kCount * sizeof(std::int64_t);
  const cuda::buffer<std::int64_t> data(world, kCount);
  cuda::Staging staging(device.context);
  const auto ones = staging.take(kBytes), sums = staging.take(kBytes);
  std::fill_n(reinterpret_cast<std::int64_t*>(ones.data()), kCount, 1);
  const std::vector<std::int64_t> wanted(kCount, world.size());
  for (const Algorithm algorithm :
       {Algorithm::leader, Algorithm::sliced, Algorithm::direct, Algorithm::ring, Algorithm::tree}) {
    for (int late = 0; late < world.size(); ++late) {
      device.fill(address_of(data), kBytes, std::byte{0});
      std::optional<HeldStream> held;
      if (world.rank() == late) held.emplace(device);
      device.write(address_of(data), {ones.data(), kBytes});
      Work work = iall_reduce(world, data.span(stream_of(device)), sum, {algorithm});
      work.wait_on(stream_of(device));
      work.wait_on(stream_of(second));
      second.read(address_of(data), {sums.data(), kBytes});
      // Every rank has come here, and the device of one has not.
      barrier(world);
      if (held) held->let_go();
      second.stream.synchronize();
      const auto bytes = std::as_bytes(std::span(wanted));
      require(std::equal(bytes.begin(), bytes.end(), sums.data()), to_string(algorithm).data());
    }
  }
}

/// Where all is done on the devices a stream waits by itself: nobody's host does, however late a device is.
void ahead_of_the_device(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kCount = 2000;
  // More at a time than there are events for.
  constexpr int kMany = 40;
  const cuda::buffer<std::int64_t> data(world, kCount);
  const std::vector<std::int64_t> ones(kCount, 1);
  device.write(address_of(data), std::as_bytes(std::span(ones)));
  device.stream.synchronize();
  // Events come back, those of the beginning and those of the end: there are fewer of them than this takes of each.
  const cuda::buffer<std::int64_t> one(world, 1);
  Options by_messages;
  by_messages.algorithm = Algorithm::tree;
  for (int i = 0; i < 70; ++i) {
    all_reduce(world, one.span(stream_of(device)), max);
    all_reduce(world, one.span(stream_of(device)), max, by_messages);
  }
  // What others map is mapped while no stream is held, for which a driver might wait.
  all_reduce(world, data.span(stream_of(device)), max);
  std::vector<cuda::buffer<std::int64_t>> others;
  for (int i = 0; i < kMany; ++i) {
    others.emplace_back(world, 1);
    device.write(address_of(others.back()), std::as_bytes(std::span(ones).first(1)));
    all_reduce(world, others.back().span(stream_of(device)), max);
  }
  HeldStream held(device);
  for (int i = 0; i < 3; ++i) {
    Work work = iall_reduce(world, data.span(stream_of(device)), sum);
    work.wait_on(stream_of(device));
  }
  std::vector<Work> works;
  for (const auto& other : others) works.push_back(iall_reduce(world, other.span(stream_of(device)), sum));
  // Every rank has come here, and none of their streams has.
  barrier(world);
  require(!works.back().test(), "it was done before it could be");
  held.let_go();
  wait_all(works);
  device.stream.synchronize();
  const std::int64_t size = world.size();
  const std::vector<std::int64_t> wanted(kCount, size * size * size);
  const auto got = device.content(address_of(data), kCount * sizeof(std::int64_t));
  require(std::equal(got.begin(), got.end(), std::as_bytes(std::span(wanted)).begin()), "three sums in a row");
  for (const auto& other : others) {
    const auto sum = device.content(address_of(other), sizeof(std::int64_t));
    require(std::equal(sum.begin(), sum.end(), std::as_bytes(std::span(&size, 1)).begin()), "one of many");
  }
}

// Of which no kernel is.
constexpr auto kOwnSum = [](std::int64_t a, std::int64_t b) { return a + b; };

/// Of the same buffers one after the other, by whatever algorithm, and nobody waits between them.
void in_a_row_by_any(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kCount = 2000;
  const std::vector<std::int64_t> ones(kCount, 1);
  const cuda::buffer<std::int64_t> data(world, kCount);
  const std::vector<Algorithm> algorithms{Algorithm::leader, Algorithm::sliced, Algorithm::leader, Algorithm::leader,
                                          Algorithm::ring,   Algorithm::leader, Algorithm::direct};
  for (int round = 0; round < 5; ++round) {
    device.write(address_of(data), std::as_bytes(std::span(ones)));
    device.stream.synchronize();
    std::vector<Work> works;
    std::int64_t product = 1;
    for (const Algorithm algorithm : algorithms) {
      works.push_back(iall_reduce(world, data.span(stream_of(device)), sum, {algorithm}));
      product *= world.size();
    }
    for (int i = 0; i < 2; ++i) {
      works.push_back(iall_reduce(world, data.span(stream_of(device)), kOwnSum));
      works.push_back(iall_reduce(world, data.span(stream_of(device)), sum));
      product *= world.size() * world.size();
    }
    // In whatever order they are waited for.
    if (round % 2 == 1) std::reverse(works.begin(), works.end());
    wait_all(works);
    const std::vector<std::int64_t> wanted(kCount, product);
    const auto got = device.content(address_of(data), kCount * sizeof(std::int64_t));
    require(std::equal(got.begin(), got.end(), std::as_bytes(std::span(wanted)).begin()), "sums of sums");
  }
}

/// The last rank's device is late with its part of one collective; the next goes through the host, has nothing to do
/// with it, and is over; the one after that gets what the first makes.
void over_one_on_the_host(Communicator& world) {
  constexpr std::size_t kCount = 2000;
  const DeviceUnderTest device(own_device(world)), second(own_device(world)), other(own_device(world));
  const std::vector<std::int64_t> ones(kCount, 1);
  const cuda::buffer<std::int64_t> data(world, kCount), between(world, kCount), out(world, kCount);
  for (const auto* buffer : {&data, &between, &out}) {
    device.write(address_of(*buffer), std::as_bytes(std::span(ones)));
  }
  all_reduce(world, data.span(stream_of(device)), max, {Algorithm::sliced});  // it is mapped
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  std::shared_ptr<detail::RankDevice::Opened::Queue> queue;
  std::optional<HeldStream> held;
  if (world.rank() == world.size() - 1) {
    const detail::Progress::Entry entry(engine.progress());
    queue = engine.device().opened()->queue_of(CommunicatorAccess::group(world, "").id());
    held.emplace(second, queue->copies.stream());
  }
  Work first = iall_reduce(world, data.span(stream_of(device)), sum, {Algorithm::sliced});
  iall_reduce(world, between.span(stream_of(other)), kOwnSum).wait();
  Work last = iall_reduce(world, device_span<const std::int64_t>(data.span(stream_of(other))),
                          out.span(stream_of(other)), sum, {Algorithm::direct});
  for (int i = 0; i < 1000; ++i) require(!last.test(), "it was done before it could be");
  barrier(world);
  held.reset();
  first.wait();
  last.wait();
  const std::vector<std::int64_t> wanted(kCount, std::int64_t{world.size()} * world.size());
  const auto got = device.content(address_of(out), kCount * sizeof(std::int64_t));
  require(std::equal(got.begin(), got.end(), std::as_bytes(std::span(wanted)).begin()), "the sum of sums");
}

/// What a stream waits for has been left by the thread that called it: another may call the next.
void from_thread_to_thread(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> first(world, 1000), second(world, 1000);
  for (const auto* buffer : {&first, &second}) device.fill(address_of(*buffer), 4000, std::byte{0});
  for (const auto* buffer : {&first, &second}) all_reduce(world, buffer->span(stream_of(device)), sum);  // is mapped
  HeldStream held(device);
  iall_reduce(world, first.span(stream_of(device)), sum).wait_on(stream_of(device));
  std::exception_ptr failure;
  std::thread other([&] {
    try {
      iall_reduce(world, second.span(stream_of(device)), sum).wait_on(stream_of(device));
    } catch (...) {
      failure = std::current_exception();
    }
  });
  other.join();
  held.let_go();
  device.stream.synchronize();
  if (failure) std::rethrow_exception(failure);
}

/// Two pieces of a result are there before the stream has come to the call. It comes between two questions of one look:
/// the first is answered as if it had not (FAKECUDA_FAIL).
void pieces_in_a_row(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kPiece = 1000;
  const cuda::buffer<std::byte> data(world, 2 * kPiece);
  device.fill(address_of(data), 2 * kPiece, std::byte{0});
  cuda::Staging staging(device.context);
  const auto pieces = staging.take(2 * kPiece);
  std::fill_n(pieces.data(), 2 * kPiece, std::byte{1});
  detail::Engine& engine = *CommunicatorAccess::engine(world);
  detail::RankDevice& own = engine.device();
  const detail::Progress::Entry entry(engine.progress());
  HeldStream held(device);
  const auto buffer = own.begin(detail::DeviceBytes(data.span(stream_of(device))), "a test");
  for (const std::size_t at : {std::size_t{0}, kPiece})
    own.write(
        buffer, {pieces.data() + at, kPiece}, -1, [](const std::exception_ptr&) {}, at);
  held.drain();
  do engine.poll(detail::Engine::Look::everything);
  while (!own.order(*buffer, stream_of(device)));
  require(device.holds(address_of(data), 2 * kPiece, std::byte{1}), "what comes after a piece comes after all");
}

}  // namespace

Acts collective_order() {
  return {
      {"pieces-in-a-row", pieces_in_a_row},
      {"in-a-row-by-any", in_a_row_by_any},
      {"in-order-on-the-device", in_order_on_the_device},
      {"in-order-on-the-host", in_order_on_the_host},
      {"late-devices", late_devices},
      {"ahead-of-the-device", ahead_of_the_device},
      {"over-one-on-the-host", over_one_on_the_host},
      {"from-thread-to-thread", from_thread_to_thread},
  };
}

}  // namespace rondo::testing
