// Collectives on devices' memory: by counts, many at a time, in groups.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <rondo/algorithms.hpp>
#include <rondo/rondo.hpp>

#include "tests/cuda/acts.hpp"
#include "tests/cuda/collective_buffers.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/virtual_memory.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

namespace rondo::testing {
namespace {

/// More at a time than there are events, so that each is used again as soon as it may be.
void many_at_a_time(Communicator& world, const Options& options) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kMany = 150;
  constexpr std::size_t kCount = 10;
  Both<std::int64_t> all(world, device, kMany * kCount, world.rank());
  std::vector<Work> works;
  for (std::size_t i = 0; i < kMany; ++i) {
    works.push_back(iall_reduce(world, all.device().subspan(i * kCount, kCount), sum, options));
  }
  wait_all(works);
  all_reduce(world, all.host(), sum);
  all.check("many at a time");
}

/// By one kernel of the first rank's where all share a device: no copy of the driver's is made.
void moved_at_once(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = 1000;
  const auto size = static_cast<std::size_t>(world.size());
  const rondo::cuda::buffer<std::byte> in(world, kBytes), out(world, kBytes * size);
  device.fill(address_of(in), kBytes, static_cast<std::byte>(world.rank() + 1));
  all_gather(world, in.span(stream_of(device)), out.span(stream_of(device)));
  for (std::size_t rank = 0; rank < size; ++rank) {
    require(device.holds(address_of(out) + rank * kBytes, kBytes, static_cast<std::byte>(rank + 1)), "what was moved");
  }
}

void many_direct(Communicator& world) { many_at_a_time(world, {Algorithm::sliced}); }

void many_by_messages(Communicator& world) { many_at_a_time(world, {Algorithm::ring}); }

/// A stream that does not go on keeps collectives of its own communicator waiting, and no others.
void communicators_apart(Communicator& world) {
  const DeviceUnderTest device(own_device(world)), second(own_device(world));
  Communicator other = world.dup();
  Both<std::int64_t> late(world, device, 1000, world.rank());
  Both<std::int64_t> early(other, second, 1000, world.rank() + 1);
  for (const Algorithm algorithm : {Algorithm::leader, Algorithm::sliced, Algorithm::ring}) {
    // What is mapped may have to wait for the device.
    all_reduce(world, late.device(), max, {algorithm});
    all_reduce(other, early.device(), max, {algorithm});
    HeldStream held(device);
    Work work = iall_reduce(world, late.device(), sum, {algorithm});
    all_reduce(other, early.device(), sum, {algorithm});
    held.let_go();
    work.wait();
    all_reduce(world, late.host(), max);
    all_reduce(other, early.host(), max);
    all_reduce(world, late.host(), sum);
    all_reduce(other, early.host(), sum);
    late.check("behind a stream that was held");
    early.check("beside one");
  }
}

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// Blocks of these lengths, on the host and on the device: the same bits.
class ByCounts {
 public:
  ByCounts(Communicator& world, const DeviceUnderTest& device, const std::vector<std::size_t>& counts)
      : world_(world),
        counts_(counts),
        part_(world, device, counts[static_cast<std::size_t>(world.rank())], 0),
        all_(world, device, sum_of(counts), 0) {}

  void each(int root) {
    each_of(Collective::scatter,
            [&](auto part, auto all, const Options& o) { scatter(world_, all, part, counts_, root, o); });
    each_of(Collective::gather,
            [&](auto part, auto all, const Options& o) { gather(world_, part, all, counts_, root, o); });
    each_of(Collective::all_gather, [&](auto part, auto all, const Options& o) {
      all_gather(world_, part, all, counts_, o);
      all_gather(world_, all, counts_, o);
    });
    each_of(Collective::reduce_scatter, [&](auto part, auto all, const Options& o) {
      reduce_scatter(world_, all, part, counts_, sum, o);
      reduce_scatter(world_, all, counts_, avg, o);
    });
  }

 private:
  template <typename Call>
  void each_of(Collective collective, const Call& call) {
    std::vector<Algorithm> algorithms{Algorithm::automatic, Algorithm::direct};
    const auto by_messages = algorithms_of(collective);
    algorithms.insert(algorithms.end(), by_messages.begin(), by_messages.end());
    for (const Algorithm algorithm : algorithms) {
      part_.fill(world_.rank());
      all_.fill(world_.rank() + 3);
      Options options{algorithm};
      options.chunk_bytes = 1000;
      call(part_.device(), all_.device(), options);
      call(part_.host(), all_.host(), options);
      const std::string what = fmt::format("{} by counts, {}", to_string(collective), to_string(algorithm));
      part_.check(what.c_str());
      all_.check(what.c_str());
    }
  }

  Communicator& world_;
  const std::span<const std::size_t> counts_;
  Both<float> part_, all_;
};

/// What goes from one rank to another.
std::size_t between(int from, int to) {
  return (from + 2 * to) % 3 == 0 ? 0 : static_cast<std::size_t>(100 * from + 7 * to + 1);
}

void all_to_all_by_counts(Communicator& world, const DeviceUnderTest& device) {
  std::vector<std::size_t> sent, received;
  for (int other = 0; other < world.size(); ++other) {
    sent.push_back(between(world.rank(), other));
    received.push_back(between(other, world.rank()));
  }
  Both<float> in(world, device, sum_of(sent), world.rank()), out(world, device, sum_of(received), 5);
  all_to_all(world, in.device(), out.device(), sent, received);
  all_to_all(world, in.host(), out.host(), sent, received);
  out.check("all_to_all by counts");
}

/// Nothing from some, and much or little from others, each in turn.
void by_counts(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const std::size_t lengths[] = {301, 0, 7, 4'001, 0, 1};
  const auto ranks = static_cast<std::size_t>(world.size());
  for (std::size_t shift = 0; shift < ranks; ++shift) {
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < ranks; ++rank) counts.push_back(lengths[(rank + shift) % std::size(lengths)]);
    ByCounts(world, device, counts).each(static_cast<int>(shift));
  }
  const std::vector<std::size_t> nothing(ranks, 0);
  ByCounts(world, device, nothing).each(0);
  all_to_all_by_counts(world, device);
}

/// One rank has nothing, and no pointer to tell whether the others are on the host, where long blocks would be fetched,
/// or on devices; before it has had to do with a device, and after.
void nothing_on_either_side(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const auto any = [&](auto span) { return any_span(span.data(), span.size(), stream_of(device)); };
  constexpr int kSilent = 1;
  constexpr std::size_t kCount = 100'000;
  const bool is_silent = world.rank() == kSilent;
  std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()), kCount);
  counts[kSilent] = 0;
  // Of all_to_all: rank 0 sends more than rank 2.
  std::vector<std::size_t> sent, received;
  for (int other = 0; other < world.size(); ++other) {
    const auto length = [&](int from) { return is_silent || other == kSilent ? 0 : from == 0 ? kCount : kCount / 10; };
    sent.push_back(length(world.rank()));
    received.push_back(length(other));
  }
  const auto cut = [](auto span, const auto& lengths) { return any_span(span.data(), sum_of(lengths), span.stream()); };
  for (int round = 0; round < 2; ++round) {
    std::optional<Both<float>> in, out, gathered, part;
    if (!is_silent || round == 1) {
      in.emplace(world, device, kCount * (counts.size() - 1), world.rank());
      out.emplace(world, device, kCount * (counts.size() - 1), 7);
      gathered.emplace(world, device, kCount * (counts.size() - 1), 7);
      part.emplace(world, device, kCount, world.rank() + 2);
    }
    const auto on_both = [&](const char* name, const auto& call) {
      if (is_silent) {
        const any_span<float> nothing;
        for (int side = 0; side < 2; ++side) call(nothing, nothing, nothing, nothing);
        return;
      }
      call(any(in->host()), any(out->host()), any(gathered->host()), any(part->host()));
      call(any(in->device()), any(out->device()), any(gathered->device()), any(part->device()));
      out->check(name);
      gathered->check(name);
      part->check(name);
    };
    on_both("gather", [&](auto, auto, auto all, auto own_part) { gather(world, own_part, all, counts, 0); });
    on_both("scatter", [&](auto all, auto, auto, auto own_part) { scatter(world, all, own_part, counts, 2); });
    on_both("all_to_all", [&](auto from, auto to, auto, auto) {
      all_to_all(world, cut(from, sent), cut(to, received), sent, received);
    });
    on_both("all_to_all later", [&](auto from, auto to, auto all, auto own_part) {
      Work first = igather(world, own_part, all, counts, 2);
      Work second = iall_to_all(world, cut(from, sent), cut(to, received), sent, received);
      second.wait();
      first.wait();
    });
    // Of the first it turns out that all is on the host, and the second, on devices, does not wait for it.
    const any_span<float> nothing;
    Work first = is_silent ? igather(world, nothing, nothing, counts, 2)
                           : igather(world, any(part->host()), any(gathered->host()), counts, 2);
    Work second =
        is_silent ? iall_to_all(world, nothing, nothing, sent, received)
                  : iall_to_all(world, cut(any(in->device()), sent), cut(any(out->device()), received), sent, received);
    second.wait();
    first.wait();
  }
}

/// Rank 0's elements are on the host, rank 2's on its device, and rank 1 has none.
void some_on_either_side(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const std::vector<std::size_t> counts{10, 0, 10};
  std::vector<float> host(20);
  const cuda::buffer<float> memory(world, 10);
  const auto out = world.rank() == 0 ? any_span<float>(host.data(), 20) : any_span<float>();
  const auto call = [&](any_span<float> in) { gather(world, in, out, counts, 0); };
  expect_error([&] {
    if (world.rank() == 0) return call({host.data(), 10});
    return call(world.rank() == 1 ? any_span<float>() : any_span<float>(memory.data(), 10));
  });
}

/// A long vector of 17 ranks.
void long_of_many(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const cuda::buffer<std::int32_t> data(world, kBytes / sizeof(std::int32_t));
  device.fill(address_of(data), kBytes, std::byte{0x01});
  all_reduce(world, data.span(), sum);
  require(device.holds(address_of(data), kBytes, std::byte{0x11}), "the sum");
}

/// Sums that are rounded at each step, in rank order, as asked for.
template <typename T>
void deterministic_sums(Communicator& world, const DeviceUnderTest& device) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{999}, std::size_t{70'001}}) {
    Both<T> in(world, device, count, 0), out(world, device, count, 7);
    in.fill(world.rank(), 1.37F);  // no sum of these is exact
    for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::direct, Algorithm::chain}) {
      Options options{algorithm};
      options.deterministic = true;
      all_reduce(world, in.device(), out.device(), sum, options);
      all_reduce(world, in.host(), out.host(), sum, options);
      out.check("a deterministic sum");
      reduce(world, in.device(), out.device(), avg, 0, options);
      reduce(world, in.host(), out.host(), avg, 0, options);
      out.check("a deterministic average");
    }
  }
}

void deterministic(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  deterministic_sums<bfloat16>(world, device);
  deterministic_sums<float16>(world, device);
  deterministic_sums<float>(world, device);
}

/// On streams that nobody makes: the default one by its names, and that of the thread.
void default_streams(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  const cuda::buffer<float> data(world, 1000);
  // What others map is mapped while no stream is held, for which a driver might wait.
  all_reduce(world, data.span(stream_of(device)), sum);
  for (const std::uintptr_t name : {0, 1, 2}) {
    const auto stream = reinterpret_cast<cuda::StreamHandle>(name);
    std::optional<HeldStream> held;
    if (world.rank() == 0) held.emplace(device, stream);
    const cuda::Current current(device.context);
    device.driver().must(device.driver().cuMemsetD8Async, address_of(data), static_cast<unsigned char>(0),
                         data.size() * sizeof(float), stream);
    Work work = iall_reduce(world, data.span(stream), sum);
    barrier(world);
    require(!work.test(), "it overtook a stream");
    barrier(world);
    held.reset();
    work.wait_on(stream);
    device.driver().must(device.driver().cuStreamSynchronize, stream);
    require(device.holds(address_of(data), data.size() * sizeof(float), std::byte{0}), "a sum of nothing");
    device.fill(address_of(data), data.size() * sizeof(float), std::byte{1});
  }
}

/// Rank 0's elements lie where no device could read one at once.
void misaligned(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kCount = 70'001;
  const std::size_t skew = world.rank() == 0 ? 1 : 0;
  const cuda::buffer<std::byte> data(world, kCount * sizeof(float) + skew);
  const std::vector<float> ones(kCount, 1), wanted(kCount, static_cast<float>(world.size()));
  auto* const begin = reinterpret_cast<float*>(data.data() + skew);
  for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ring}) {
    device.write(address_of(data) + skew, std::as_bytes(std::span(ones)));
    all_reduce(world, device_span<float>(begin, kCount, stream_of(device)), sum, {algorithm});
    require(same_bits(device.content(address_of(data) + skew, kCount * sizeof(float)), wanted), "a sum of ones");
  }
}

/// Memory that others cannot map goes through the host: of rank 0 alone, or of all.
void unmappable(Communicator& world) {
  const DeviceUnderTest device(own_device(world));
  constexpr std::size_t kCount = 70'001;
  const Unmappable memory(device, kCount * sizeof(std::int64_t));
  Both<std::int64_t> ordinary(world, device, kCount, 0), wanted(world, device, kCount, 0);
  for (const bool of_all : {false, true}) {
    for (const cuda::Address address : memory.addresses()) {
      ordinary.fill(world.rank());
      const auto host = ordinary.host();
      device.write(address, std::as_bytes(host));
      const device_span<std::int64_t> given(reinterpret_cast<std::int64_t*>(address), kCount, stream_of(device));
      const auto in = of_all || world.rank() == 0 ? given : ordinary.device();
      all_reduce(world, in, wanted.device(), sum);
      all_reduce(world, std::span<const std::int64_t>(host), wanted.host(), sum);
      wanted.check("a sum of memory that cannot be mapped");
      broadcast(world, in, 0);
      broadcast(world, host, 0);
      const auto got = device.content(cuda::address_of(in.data()), kCount * sizeof(std::int64_t));
      require(same_bits(got, host), "a broadcast of memory that cannot be mapped");
    }
  }
}

}  // namespace

Acts collective_blocks() {
  return {
      {"unmappable", unmappable},
      {"misaligned", misaligned},
      {"default-streams", default_streams},
      {"moved-at-once", moved_at_once},
      {"many-direct", many_direct},
      {"many-by-messages", many_by_messages},
      {"communicators-apart", communicators_apart},
      {"by-counts", by_counts},
      {"nothing-on-either-side", nothing_on_either_side},
      {"some-on-either-side", some_on_either_side},
      {"long-of-many", long_of_many},
      {"deterministic", deterministic},
  };
}

}  // namespace rondo::testing
