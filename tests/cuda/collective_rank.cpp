// A rank whose collectives work on memory of a device: collective_rank ACT. Started by rondo-run. Ends with 0 when all
// was as it must be, else it says what was not.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rondo/algorithms.hpp>
#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/cuda/acts.hpp"
#include "tests/cuda/collective_buffers.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/each_collective.hpp"
#include "tests/support/ranks.hpp"

namespace {

using rondo::Algorithm;
using rondo::any_span;
using rondo::Collective;
using rondo::Communicator;
using rondo::Options;
using rondo::Work;
using rondo::testing::address_of;
using rondo::testing::Both;
using rondo::testing::DeviceUnderTest;
using rondo::testing::each_collective;
using rondo::testing::own_device;
using rondo::testing::refused;
using rondo::testing::require;
using rondo::testing::stream_of;

/// What may wait for the device is over when the first memory is spoken of.
void kernels_come_first(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const rondo::cuda::buffer<float> data(world, 1);
  rondo::detail::Engine& engine = *rondo::CommunicatorAccess::engine(world);
  const rondo::detail::Progress::Entry entry(engine.progress());
  require(engine.device().opened()->reductions.has_value(), "kernels");
}

/// Buffers of which the caller does not say whose they are.
void on_either_side(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto any = [&](auto span) { return any_span(span.data(), span.size(), stream_of(device)); };
  const auto ranks = static_cast<std::size_t>(world.size());
  Both<float> in(world, device, 100, world.rank()), out(world, device, 100 * ranks, 7);
  all_gather(world, any(in.device()), any(out.device()));
  all_gather(world, any(in.host()), any(out.host()));
  out.check("all_gather of any memory");
  all_reduce(world, any(in.device()), rondo::sum);
  all_reduce(world, any(in.host()), rondo::sum);
  in.check("all_reduce of any memory");
  // Where it has nothing to receive, a rank says nothing of it.
  gather(world, any(in.device()), world.rank() == 0 ? any(out.device()) : any_span<float>(), 0);
  gather(world, in.host(), out.host(), 0);
  out.check("gather of any memory");
  refused(rondo::Errc::invalid_argument,
          "all_gather: in is memory of a device, out of the host: wanted both of one side",
          [&] { all_gather(world, any(in.device()), any(out.host())); });
}

/// Sums that are another in each order have the bits of the host's, which combines in rank order, on every rank.
void in_rank_order(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const Options on_host{Algorithm::direct};
  const int root = world.size() - 1;
  constexpr std::size_t kCount = 10'007;
  const std::size_t all = kCount * static_cast<std::size_t>(world.size());
  for (const Algorithm algorithm : {Algorithm::leader, Algorithm::sliced, Algorithm::direct}) {
    const Options options{algorithm};
    Both<float> in(world, device, all, 0), out(world, device, all, 7), part(world, device, kCount, 7);
    in.fill(world.rank(), 1.37F);
    all_reduce(world, in.device(), out.device(), rondo::sum, options);
    all_reduce(world, in.host(), out.host(), rondo::sum, on_host);
    out.check("all_reduce in rank order");
    reduce_scatter(world, in.device(), part.device(), rondo::sum);
    reduce_scatter(world, in.host(), part.host(), rondo::sum, on_host);
    part.check("reduce_scatter in rank order");
    reduce(world, in.device(), out.device(), rondo::sum, root, options);
    reduce(world, in.host(), out.host(), rondo::sum, root, on_host);
    out.check("reduce in rank order");
  }
}

/// The algorithms that work on devices, each as it is asked for.
void algorithms(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const int root = world.size() - 1;
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{10'007}}) {
    for (const Algorithm algorithm : {Algorithm::leader, Algorithm::sliced, Algorithm::direct}) {
      const Options options{algorithm};
      Both<float> in(world, device, count, world.rank()), out(world, device, count, 7);
      all_reduce(world, in.device(), out.device(), rondo::sum, options);
      all_reduce(world, in.host(), out.host(), rondo::sum);
      out.check("all_reduce");
      all_reduce(world, out.device(), rondo::avg, options);
      all_reduce(world, out.host(), rondo::avg);
      out.check("all_reduce in place");
      reduce(world, in.device(), out.device(), rondo::max, root, options);
      reduce(world, in.host(), out.host(), rondo::max, root);
      out.check("reduce");
      reduce(world, in.device(), rondo::sum, root, options);
      reduce(world, in.host(), rondo::sum, root);
      if (world.rank() == root) in.check("reduce in place");
    }
  }
}

/// Blocking calls, the streams at rest: nobody but the first rank has anything to do on the device.
void by_the_first(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const int root = world.size() - 1;
  constexpr std::size_t kCount = 1000;
  const std::size_t all = kCount * static_cast<std::size_t>(world.size());
  Both<float> in(world, device, all, world.rank()), out(world, device, all, 7), part(world, device, kCount, 7);
  const auto both = [&](const auto& call) {
    call(in.device(), out.device(), part.device());
    call(in.host(), out.host(), part.host());
    out.check("what one rank did for all");
    part.check("what one rank did for all");
  };
  both([&](auto whole, auto result, auto) { all_reduce(world, whole, result, rondo::sum); });
  both([&](auto whole, auto result, auto) { reduce(world, whole, result, rondo::max, root); });
  both([&](auto whole, auto, auto block) { reduce_scatter(world, whole, block, rondo::sum); });
  both([&](auto, auto result, auto) { broadcast(world, result, root); });
  both([&](auto whole, auto, auto block) { scatter(world, whole, block, root); });
  both([&](auto, auto result, auto block) { gather(world, block, result, root); });
  both([&](auto, auto result, auto block) { all_gather(world, block, result); });
  both([&](auto whole, auto result, auto) { all_to_all(world, whole, result); });
}

/// Those that work by messages, in chunks and not, as on the host.
void by_messages(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const int root = world.size() - 1;
  // Of which no kernel is.
  const auto plus = rondo::commuting([](float a, float b) { return a + b; });
  constexpr std::size_t kCount = 3001;
  const auto ranks = static_cast<std::size_t>(world.size());
  for (const std::size_t chunk_bytes : {std::size_t{0}, std::size_t{4000}}) {
    const auto each_of = [&](Collective collective, const auto& call) {
      for (const Algorithm algorithm : rondo::algorithms_of(collective)) {
        Both<float> in(world, device, kCount * ranks, world.rank()), out(world, device, kCount * ranks, 7);
        Both<float> part(world, device, kCount, world.rank() + 2);
        const Options options{.algorithm = algorithm, .chunk_bytes = chunk_bytes};
        call(in.device(), out.device(), part.device(), options);
        call(in.host(), out.host(), part.host(), options);
        out.check(to_string(algorithm).data());
        part.check(to_string(algorithm).data());
      }
    };
    each_of(Collective::all_reduce, [&](auto in, auto out, auto part, const Options& options) {
      all_reduce(world, in, out, rondo::avg, options);
      all_reduce(world, part, rondo::max, options);
      all_reduce(world, part, plus, options);
    });
    each_of(Collective::reduce, [&](auto in, auto out, auto part, const Options& options) {
      reduce(world, in, out, rondo::sum, root, options);
      reduce(world, part, plus, 0, options);
      reduce(world, part, rondo::avg, root, options);
    });
    each_of(Collective::broadcast, [&](auto, auto out, auto part, const Options& options) {
      broadcast(world, part, root, options);
      broadcast(world, out, 0, options);
    });
    each_of(Collective::scatter,
            [&](auto in, auto, auto part, const Options& options) { scatter(world, in, part, root, options); });
    each_of(Collective::gather,
            [&](auto, auto out, auto part, const Options& options) { gather(world, part, out, root, options); });
    each_of(Collective::all_gather,
            [&](auto, auto out, auto part, const Options& options) { all_gather(world, part, out, options); });
    each_of(Collective::reduce_scatter, [&](auto in, auto, auto part, const Options& options) {
      reduce_scatter(world, in, part, rondo::avg, options);
      reduce_scatter(world, in, part, plus, options);
    });
    each_of(Collective::all_to_all,
            [&](auto in, auto out, auto, const Options& options) { all_to_all(world, in, out, options); });
  }
}

void all(Communicator& world) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{70'001}}) {
    each_collective<float>(world, rondo::sum, count);
  }
  each_collective<rondo::bfloat16>(world, rondo::sum, 999);
  each_collective<std::int32_t>(world, rondo::max, 999);
  each_collective<double>(world, rondo::avg, 999);
  each_collective<std::int64_t>(
      world, [](std::int64_t, std::int64_t b) { return b; }, 999);
}

/// Several at a time that go through the host: the devices' copies end in another order on each rank.
void several_on_the_host(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto plus = rondo::commuting([](std::int64_t a, std::int64_t b) { return a + b; });
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<Both<std::int64_t>>> all;
    std::vector<Work> works;
    for (int i = 0; i < 8; ++i) {
      all.push_back(std::make_unique<Both<std::int64_t>>(world, device, 500 * (9 - i), world.rank() + i));
      works.push_back(iall_reduce(world, all.back()->device(), plus));
    }
    wait_all(works);
    for (const auto& both : all) {
      all_reduce(world, both->host(), plus);
      both->check("one of several");
    }
  }
}

/// Memory that goes and comes again at the same address.
void memory_comes_again(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  for (int round = 0; round < 20; ++round) {
    const rondo::cuda::buffer<std::int32_t> data(world, 600'000);
    device.fill(address_of(data), 2'400'000, std::byte{0});
    const std::int32_t mine = round + world.rank();
    device.write(address_of(data), std::as_bytes(std::span(&mine, 1)));
    all_reduce(world, data.span(stream_of(device)), rondo::max);
    const std::int32_t wanted = round + world.size() - 1;
    const auto got = device.content(address_of(data), sizeof wanted);
    require(std::equal(got.begin(), got.end(), std::as_bytes(std::span(&wanted, 1)).begin()), "the greatest");
  }
}

/// Where ranks have other numbers than in the world.
void in_groups(Communicator& world) {
  Communicator reversed = world.split(world.rank() / 2, -world.rank());
  Communicator some = world.subgroup({3, 1, 0});
  for (Communicator* const group : {&reversed, &some}) {
    if (!*group) continue;
    each_collective<float>(*group, rondo::sum, 1000);
    each_collective<double>(*group, rondo::avg, 999);
    by_messages(*group);
  }
}

/// Ranks that are threads of one process.
void threads(Communicator&) {
  rondo::testing::run_ranks(3, [](Communicator& world) {
    each_collective<float>(world, rondo::sum, 1000);
    algorithms(world);
  });
}

const rondo::testing::Acts kActs{
    {"all", all},
    {"algorithms", algorithms},
    {"by-the-first", by_the_first},
    {"in-rank-order", in_rank_order},
    {"in-groups", in_groups},
    {"threads", threads},
    {"on-either-side", on_either_side},
    {"kernels-come-first", kernels_come_first},
    {"by-messages", by_messages},
    {"several-on-the-host", several_on_the_host},
    {"memory-comes-again", memory_comes_again},
};

}  // namespace

int main(int argc, char** argv) {
  return rondo::testing::run_act(argc, argv,
                                 {kActs, rondo::testing::collective_blocks(), rondo::testing::collective_pieces(),
                                  rondo::testing::collective_failures(), rondo::testing::collective_order()});
}
