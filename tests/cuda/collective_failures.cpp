// What goes wrong with collectives on devices' memory. Each rank prints what it hears of it.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rondo/algorithms.hpp>
#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/device_under_test.hpp"

namespace rondo::testing {
namespace {

/// What the driver refuses on one rank all hear of.
template <typename Op>
void fails(Communicator& world, Op op) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> data(world, 1000);
  device.fill(address_of(data), 4000, std::byte{0});
  expect_error([&] { all_reduce(world, data.span(), op); });
}

void launch_fails(Communicator& world) { fails(world, sum); }

/// There is no kernel for it: it goes through the host.
void copy_fails(Communicator& world) {
  fails(world, [](float a, float b) { return a - b; });
}

/// What it refuses rank 1 before its part has begun, too, long before their time is up.
void call_is_refused(Communicator& world) {
  const cuda::buffer<float> data(world, 10);
  const auto call = [&] { all_reduce(world, data.span(), sum); };
  if (world.rank() == 1) {
    driver_refuses("cuStreamIsCapturing", 2, call);
  } else {
    refused(Errc::peer_failed, "all_reduce: rank 1 threw: cuStreamIsCapturing: got CUDA_ERROR_OUT_OF_MEMORY", call);
  }
}

/// In a group of two of three ranks, in another order: the error has the ranks of the group.
void wait_is_refused_in_a_group(Communicator& world) {
  Communicator group = world.subgroup({2, 0});
  if (!group) return;
  const cuda::buffer<float> data(group, 10);
  const DeviceUnderTest device(own_device(group));
  std::optional<HeldStream> held;  // else there is nothing to wait for
  if (group.rank() == 1) held.emplace(device);
  const auto call = [&] { broadcast(group, data.span(stream_of(device)), 1); };
  if (group.rank() == 1)
    return (void)refused(Errc::peer_failed, "rank 0 (rank 2 of the world) threw: cuStreamWaitEvent", call);
  const Error error = driver_refuses("cuStreamWaitEvent", 2, call);
  require(error.rank() == 0 && error.peer() == 1, "the ranks of an error");
  require(std::string(error.what()).find("out of memory, rank 1") != std::string::npos, "the text of an error");
}

/// Whatever the driver refuses, and when: each of these is right, or an Error that says so, or that another rank has
/// had one.
void come_what_may(Communicator& world) {
  constexpr std::size_t kCount = 1000;
  const auto ranks = static_cast<std::size_t>(world.size());
  try {
    cuda::buffer<int> sums(world, kCount), all(world, kCount * ranks);
    const std::vector<int> own(kCount, world.rank() + 1), wanted(kCount, world.size() * (world.size() + 1) / 2);
    std::vector<int> got(kCount), got_of_all(kCount * ranks);
    sums.copy_from(own);
    for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ring}) {
      all_gather(world, sums.span(), all.span(), {algorithm});
      all.copy_to(got_of_all);
      for (std::size_t i = 0; i < got_of_all.size(); ++i) {
        require(got_of_all[i] == static_cast<int>(i / kCount) + 1, "what all have given");
      }
      cuda::buffer<int> out(world, kCount);
      all_reduce(world, sums.span(), out.span(), sum, {algorithm});
      out.copy_to(got);
      require(got == wanted, "the sum");
    }
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    require(error.code() == Errc::cuda || error.code() == Errc::peer_failed, "the code of an error");
  }
}

/// What rank 0 has for rank 1 is not what that wants of it: none of the two gets anything else, or waits for it.
void counts_differ(Communicator& world) {
  for (const auto& [has, wants] : {std::pair{5U, 0U}, {0U, 5U}, {5U, 8U}, {8U, 5U}}) {
    Communicator group = world.dup();
    std::vector<std::size_t> send_counts(2, 4), recv_counts(2, 4);
    if (world.rank() == 0) send_counts[1] = has;
    if (world.rank() == 1) recv_counts[0] = wants;
    const cuda::buffer<int> in(world, 4 + send_counts[1]), out(world, 4 + recv_counts[0]);
    refused(Errc::collective_mismatch, "rank 0 sent", [&] {
      all_to_all(group, in.span(), out.span(), send_counts, recv_counts);
      barrier(group);
    });
    barrier(world);
  }
}

/// Scratch memory of the device is what is left at the end.
void leaves_scratch(Communicator& world) {
  const cuda::buffer<float> data(world, 1000);
  try {
    all_reduce(world, data.span(), sum, {Algorithm::recursive_doubling});
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    require(error.code() == Errc::cuda || error.code() == Errc::peer_failed, "the code of an error");
  }
}

/// What collectives take for a while serves the next ones, also those that need a little more, and goes where no memory
/// is left: the fourth time that some is taken, on all ranks alike.
void scratch_is_given_up(Communicator& world) {
  constexpr std::size_t kMost = 1'800'000;
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> data(world, kMost);
  device.fill(address_of(data), kMost * sizeof(float), std::byte{0});
  const auto reduce = [&](std::size_t count) {
    all_reduce(world, data.span().subspan(0, count), sum, {Algorithm::recursive_doubling});
  };
  for (const std::size_t count : {std::size_t{1000}, kMost - 500'000, kMost}) reduce(count);
  detail::RankDevice& own = CommunicatorAccess::engine(world)->device();
  require(own.opened()->scratch.size() == 2, "as much as is needed is kept");
  const cuda::buffer<float> more(world, 1000);
  require(own.opened()->scratch.empty() && own.parked().empty(), "what is kept is given up");
  reduce(kMost);
}

/// A call fails in its middle, and the device goes on: no event stays taken for want of what the others do not say any
/// more, and what one of them still says does no harm.
void events_come_back(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> data(world, 1000);
  device.fill(address_of(data), 4000, std::byte{0});
  Communicator failing = world.dup();
  expect_error([&] { all_reduce(failing, data.span(), sum); });
  {
    detail::Engine& engine = *CommunicatorAccess::engine(world);
    detail::Progress::Entry entry(engine.progress());
    const auto all = [&] { return engine.device().opened()->events.available() == detail::RankDevice::kEvents; };
    // The rank that the driver refuses knows of it before the word is out that the communicator has failed.
    require(engine.progress().until(entry, all, engine.clock().now() + std::chrono::seconds(10)), "all events");
  }
  all_reduce(world, data.span(), sum);
}

/// A device that does not come to it in time is named.
void late_is_named(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> data(world, 1000);
  device.fill(address_of(data), 4000, std::byte{0});
  // What takes long, once, is done before: the rest of it all hosts have done long before the time is up.
  all_reduce(world, data.span(stream_of(device)), sum);
  std::optional<HeldStream> held;
  if (world.rank() == 1) held.emplace(device);
  barrier(world);
  Options options;
  if (world.rank() != 1) options.timeout = std::chrono::seconds(5);
  expect_error([&] { all_reduce(world, data.span(stream_of(device)), sum, options); });
}

/// One rank's buffer is the host's, the others' are of the device.
void one_is_on_the_host(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> data(world, 10);
  device.fill(address_of(data), 40, std::byte{0});
  std::vector<float> own(10);
  expect_error([&] {
    if (world.rank() == 1) {
      all_reduce(world, std::span(own), sum, {Algorithm::direct});
    } else {
      all_reduce(world, data.span(), sum, {Algorithm::direct});
    }
  });
}

/// Rank 1 dies while the others wait for it.
void one_dies(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> data(world, 1000);
  device.fill(address_of(data), 4000, std::byte{0});
  barrier(world);
  if (world.rank() == 1) ::raise(SIGKILL);
  launch_fails(world);
}

/// Rank 1 dies with its part of the work queued on its device, for which the others' devices wait in vain.
void one_dies_with_work_queued(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> first(world, 1000), second(world, 1000);
  device.fill(address_of(first), 4000, std::byte{0});
  device.fill(address_of(second), 4000, std::byte{0});
  std::optional<HeldStream> held;
  if (world.rank() == 1) held.emplace(device);
  Work work = iall_reduce(world, first.span(stream_of(device)), sum);
  // Queued after the other, everywhere.
  Work last = iall_reduce(world, second.span(stream_of(device)), sum);
  last.wait_on(stream_of(device));
  barrier(world);
  if (world.rank() == 1) ::raise(SIGKILL);
  expect_error([&] { work.wait(); });
}

}  // namespace

Acts collective_failures() {
  return {
      {"come-what-may", come_what_may},
      {"call-is-refused", call_is_refused},
      {"wait-is-refused-in-a-group", wait_is_refused_in_a_group},
      {"launch-fails", launch_fails},
      {"counts-differ", counts_differ},
      {"leaves-scratch", leaves_scratch},
      {"scratch-is-given-up", scratch_is_given_up},
      {"events-come-back", events_come_back},
      {"late-is-named", late_is_named},
      {"one-is-on-the-host", one_is_on_the_host},
      {"one-dies-with-work-queued", one_dies_with_work_queued},
      {"copy-fails", copy_fails},
      {"one-dies", one_dies},
  };
}

}  // namespace rondo::testing
