// What messages and collectives allocate once everything is warm, of any length and over every transport: nothing.

#include "tests/support/allocations.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/collective_calls.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/stretches.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr std::size_t kLong = std::size_t{64} << 10;
constexpr int kStretches = 5;  // in a row

/// Warm by what starts an operation each time: a call that is soon done need not, and seldom does.
void warm_up(const std::function<void()>& step, std::size_t bytes) {
  for (int i = 0; i < (bytes < kLong ? 600 : 20); ++i) step();
}

/// A message that comes before its receive takes memory, which is kept: more when more of them come so, by chance, than
/// ever before, and so for operations that wait. Between two ranks a short collective in shared memory is no message:
/// it `never` does.
void check_none(Communicator& world, const std::string& what, const std::function<void()>& step, std::size_t bytes,
                bool never = false) {
  const int steps = bytes < kLong ? 100 : 10;
  long least = std::numeric_limits<long>::max();
  long most = 0;
  const bool rests = comes_to_rest(
      world,
      [&] {
        const long before = allocations();
        for (int i = 0; i < steps; ++i) step();
        const long made = allocations() - before;
        least = std::min(least, made);
        most = std::max(most, made);
        return made == 0;
      },
      kStretches);
  require(rests && (!never || most == 0), what + ": in " + std::to_string(steps) + " of them " + std::to_string(least) +
                                              " to " + std::to_string(most) + " allocations");
}

void check_everything(Communicator& world, std::span<double> memory, std::size_t bytes, bool shared) {
  const auto size = static_cast<std::size_t>(world.size());
  const std::size_t share = bytes / sizeof(double) / size;
  const std::span<double> own = memory.first(share), in = memory.subspan(share, share * size),
                          all = memory.subspan(share + share * size, share * size);
  const std::string of = " of " + std::to_string(bytes) + " bytes";
  for (const auto& [name, call, start] : collective_calls(world, own, in, all)) {
    const auto start_and_wait = [&] { start().wait(); };
    warm_up(start_and_wait, bytes);
    check_none(world, name + of, call, bytes, shared && size == 2 && bytes < kLong);
    check_none(world, "started " + (name + of), start_and_wait, bytes);
  }
  const int left = (world.rank() + world.size() - 1) % world.size(), right = (world.rank() + 1) % world.size();
  const auto around = [&] {
    if (world.rank() == 0) world.send(all, right);
    world.recv(all, left);
    if (world.rank() != 0) world.send(all, right);
  };
  warm_up(around, bytes);
  check_none(world, "send and recv" + of, around, bytes);
  const auto after_a_probe = [&] {
    if (world.rank() == 0) world.send(all, right);
    world.probe(left);
    world.recv(all, left);
    if (world.rank() != 0) world.send(all, right);
  };
  check_none(world, "probe" + of, after_a_probe, bytes);
}

constexpr std::size_t kMost = std::size_t{1} << 20;
constexpr std::size_t kMemory = 3 * kMost / sizeof(double);

std::size_t any_length() { return GENERATE(std::size_t{64}, std::size_t{1024}, kLong, kMost); }

}  // namespace

TEST_CASE("messages and collectives allocate nothing, over every transport", "[runtime][allocations]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::unix_socket, Transport::tcp);
  const std::size_t bytes = any_length();
  const int size = GENERATE(2, 3, 8);
  if (size == 8 && bytes == kMost) return;  // takes long, and does no more than three do
  CAPTURE(to_string(config.transport), size, bytes);
  run_ranks(
      size,
      [&](Communicator& world) {
        std::vector<double> memory(kMemory);
        check_everything(world, memory, bytes, config.transport == Transport::shm);
      },
      config);
}

TEST_CASE("nor do they on buffers of rondo::allocate", "[runtime][allocations]") {
  const std::size_t bytes = any_length();
  run_ranks(3, [&](Communicator& world) {
    const auto memory = allocate<double>(world, kMemory);
    check_everything(world, memory.span(), bytes, true);
  });
}

TEST_CASE("nor do operators of one's own and blocks by counts", "[runtime][allocations]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::tcp);
  CAPTURE(to_string(config.transport));
  run_ranks(
      3,
      [&](Communicator& world) {
        const std::vector<std::size_t> counts{3, 0, 5};
        std::vector<double> memory(40);
        const std::span<double> all = std::span(memory).first(8);
        const std::vector<std::size_t> counts_of_each(3, 2);
        const std::span<double> all_of = std::span(memory).subspan(20, 6);
        const std::span<double> own = std::span(memory).subspan(8, counts[static_cast<std::size_t>(world.rank())]);
        const auto step = [&] {
          all_reduce(world, all, [](double a, double b) { return a < b ? b : a; });
          all_gather(world, std::span<const double>(own), all, counts);
          reduce_scatter(world, std::span<const double>(all), own, counts, max);
          scatter(world, std::span<const double>(all), own, counts, 0);
          gather(world, std::span<const double>(own), all, counts, 0);
          all_to_all(world, std::span<const double>(all.first(6)), all_of, counts_of_each, counts_of_each);
        };
        warm_up(step, kLong);
        check_none(world, "collectives", step, kLong);
      },
      config);
}

TEST_CASE("nor do collectives of more ranks than most hosts have cores", "[runtime][allocations]") {
  run_ranks(18, [&](Communicator& world) {
    std::vector<double> data(100);
    const auto step = [&] { all_reduce(world, std::span(data), max); };
    warm_up(step, kLong);
    check_none(world, "all_reduce of 18 ranks", step, kLong);
  });
}

TEST_CASE("nor does all_reduce in two levels, short or in slices", "[runtime][allocations]") {
  const std::size_t bytes = GENERATE(std::size_t{2}, std::size_t{300'000});
  run_ranks(4, [&](Communicator& world) {
    Communicator comm = on_hosts(world, {0, 0, 1, 1});
    std::vector<char> data(bytes);
    const auto step = [&] { all_reduce(comm, std::span(data), max, {.algorithm = Algorithm::two_level}); };
    warm_up(step, bytes);
    check_none(comm, "all_reduce of " + std::to_string(bytes) + " bytes", step, bytes);
  });
}

TEST_CASE("nor do collectives by messages that are of ever other lengths", "[runtime][allocations]") {
  Config config;
  config.transport = Transport::tcp;
  const Algorithm algorithm = GENERATE(Algorithm::tree, Algorithm::ring, Algorithm::recursive_doubling);
  CAPTURE(to_string(algorithm));
  run_ranks(
      4,
      [&](Communicator& world) {
        constexpr std::size_t kLengths = 40;
        std::vector<float> memory(kLengths * 700);
        const auto step = [&] {
          for (std::size_t length = 1; length <= kLengths; ++length) {
            all_reduce(world, std::span(memory).first(length * 700), max, {.algorithm = algorithm});
          }
        };
        check_none(world, "all_reduce of many lengths", step, kLong);
      },
      config);
}
