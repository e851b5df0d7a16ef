// Collectives of ranks that share memory, where they differ from those by messages: steps that nobody ends with a
// barrier, turns, the way back to messages. What they compute is tested with the others (collectives, operators).

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/collectives/harmonic.hpp"
#include "tests/collectives/vector_of.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/rounds.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

// One collective out of a sequence that all ranks draw alike; checks what this rank gets.
void one(Communicator& world, std::uint32_t seed, std::minstd_rand& shared, const Options& options) {
  constexpr std::size_t kCounts[] = {0, 1, 2, 20, 21, 300, 5000, 200'000};
  const std::size_t count = kCounts[shared() % (shared() % 16 == 0 ? 8 : 7)];
  const int root = static_cast<int>(shared() % static_cast<unsigned>(world.size()));
  auto mine = vector_of(seed, world.rank(), count);
  switch (shared() % 5) {
    case 0:
      broadcast(world, std::span(mine), root, options);
      return require(mine == vector_of(seed, root, count), "broadcast");
    case 1: {
      reduce(world, std::span(mine), max, root, options);
      const auto wanted = vector_of(seed, world.rank() == root ? world.size() - 1 : world.rank(), count);
      return require(world.rank() != root || mine == wanted, "reduce");
    }
    case 2:
      all_reduce(world, std::span(mine), min, options);
      return require(mine == vector_of(seed, 0, count), "all_reduce");
    case 3: {
      std::vector<std::uint32_t> all(count * static_cast<std::size_t>(world.size()));
      gather(world, std::span(mine), std::span(all), root, options);
      for (int rank = 0; world.rank() == root && rank < world.size(); ++rank) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank) * count);
        require(std::equal(begin, begin + static_cast<std::ptrdiff_t>(count), vector_of(seed, rank, count).begin()),
                "gather");
      }
      return;
    }
    default:
      barrier(world, {.algorithm = options.algorithm == Algorithm::direct ? Algorithm::direct : Algorithm::automatic});
  }
}

struct Huge {
  std::uint64_t words[100'000];
};

/// Few of them fit into the arena, but not one of each rank.
struct Large {
  int words[12'000];
};

/// Whatever is timed by it is slow.
std::chrono::steady_clock::time_point slow_time() {
  thread_local std::chrono::steady_clock::time_point now{};
  return now += std::chrono::milliseconds(1);
}

}  // namespace

TEST_CASE("a long row of collectives without a barrier between them gets every byte right", "[collectives][direct]") {
  for (const int size : {2, 3, 5}) {
    run_ranks(size, [](Communicator& world) {
      std::minstd_rand shared(11);
      std::minstd_rand own(static_cast<unsigned>(world.rank()) + 1);
      for (std::uint32_t i = 0; i < rounds(1500U); ++i) {
        dawdle(own);
        one(world, i, shared, i % 3 == 0 ? Options{Algorithm::direct, 512} : Options{});
      }
    });
  }
}

TEST_CASE("collectives that write past the caches get every byte right", "[collectives][direct]") {
  for (const int size : {2, 3}) {
    run_ranks(size, [](Communicator& world) {
      barrier(world);
      CommunicatorAccess::engine(world)->pretend_caches({0, 1});  // results, too
      auto& stores = CommunicatorAccess::group(world, "").commons().stores();
      stores = detail::SharedStores(&slow_time);
      std::vector<std::byte> bytes(detail::SharedStores::kLeast);
      std::vector<std::byte> copied(bytes.size());
      std::minstd_rand shared(5);
      std::minstd_rand own(static_cast<unsigned>(world.rank()) + 1);
      for (std::uint32_t i = 0; i < rounds(300U); ++i) {
        while (!stores.past_caches(bytes.size())) stores.copy(bytes, copied.data());
        dawdle(own);
        one(world, i, shared, {i % 2 == 0 ? Algorithm::direct : Algorithm::automatic});
        // A slice that is combined in several pieces, the last one shorter.
        auto mine = vector_of(i, world.rank(), 12'345);
        all_reduce(world, std::span(mine), max, {Algorithm::sliced});
        require(mine == vector_of(i, world.size() - 1, mine.size()), "slices");
        // In windows, the last too short for a slice of each rank.
        mine = vector_of(i, world.rank(), 12'001);
        all_reduce(world, std::span(mine), max, {Algorithm::sliced, 24'000});
        require(mine == vector_of(i, world.size() - 1, mine.size()), "windows");
      }
      using Long = std::array<std::uint64_t, 2000>;
      std::vector<Long> longer_than_a_piece(7, Long{});
      longer_than_a_piece[6][1999] = 3;
      all_reduce(world, std::span(longer_than_a_piece), commuting([](const Long& a, const Long& b) {
                   Long total = a;
                   total[1999] += b[1999];
                   return total;
                 }),
                 {Algorithm::sliced});
      require(longer_than_a_piece[6][1999] == 3U * static_cast<unsigned>(world.size()), "long elements");
    });
  }
}

TEST_CASE("elements of which not one of each rank fits go by messages, whoever is late", "[collectives][direct]") {
  run_ranks(8, [](Communicator& world) {
    std::minstd_rand own(static_cast<unsigned>(world.rank()) + 1);
    std::vector<Large> one(1), all(8);
    const std::vector<std::size_t> each(8, 1);
    for (int i = 0; i < rounds(100); ++i) {
      const int root = i % world.size();
      one[0].words[11'999] = i + world.rank();
      dawdle(own);
      if (world.rank() % 2 == 0) {
        all_gather(world, std::span(one), std::span(all));
      } else {
        iall_gather(world, std::span(one), std::span(all)).wait();
      }
      for (int rank = 0; rank < world.size(); ++rank) {
        require(all[static_cast<std::size_t>(rank)].words[11'999] == i + rank, "all_gather");
      }
      dawdle(own);
      broadcast(world, std::span(one), root);
      require(one[0].words[11'999] == i + root, "broadcast");
      std::vector<Large> got(8);
      all_to_all(world, std::span(all), std::span(got), each, each);
      require(got[7].words[11'999] == i + world.rank(), "all_to_all by counts");
    }
  });
}

TEST_CASE("a sum is the left fold in rank order, whatever the timing, the window and the algorithm",
          "[collectives][direct]") {
  for (const int size : {2, 3, 7}) {
    run_ranks(size, [size](Communicator& world) {
      const std::size_t count = 3001;
      const auto mine = harmonic(world.rank(), count);
      auto wanted = harmonic(0, count);
      for (int rank = 1; rank < size; ++rank) {
        const auto next = harmonic(rank, count);
        for (std::size_t i = 0; i < count; ++i) wanted[i] += next[i];
      }
      std::minstd_rand own(static_cast<unsigned>(world.rank()) + 1);
      for (int round = 0; round < rounds(30); ++round) {
        for (const Algorithm algorithm : {Algorithm::direct, Algorithm::sliced}) {
          for (const std::size_t window : {0, 200, 4096}) {
            dawdle(own);
            auto data = mine;
            all_reduce(world, std::span(data), sum, {algorithm, window});
            require(data == wanted, "other bits by " + std::string(to_string(algorithm)));
          }
        }
      }
    });
  }
}

// Whatever is remembered of a call, its buffers hold something else the next time.
TEST_CASE("collectives in flight at once take turns in shared memory", "[collectives][direct]") {
  run_ranks(3, [](Communicator& world) {
    std::vector<std::vector<int>> data(20, std::vector<int>(5000, world.rank() + 1));
    std::vector<Work> works;
    for (auto& one_of : data) works.push_back(iall_reduce(world, std::span(one_of), sum));
    std::vector<int> late(8, 1);
    all_reduce(world, std::span(late), sum);
    require(late == std::vector<int>(8, 3), "the blocking one");
    wait_all(works);
    for (const auto& one_of : data) require(one_of == std::vector<int>(5000, 6), "one of those in flight");
  });
}

TEST_CASE("communicators that overlap do not cross in shared memory", "[collectives][direct]") {
  run_ranks(4, [](Communicator& world) {
    auto low = world.subgroup({0, 1, 2});
    auto high = world.subgroup({1, 2, 3});
    std::vector<int> in_low(600, 1), in_high(600, 10);
    for (int i = 0; i < 50; ++i) {
      Work first, second;
      if (low) first = iall_reduce(low, std::span(in_low), max);
      if (high) second = iall_reduce(high, std::span(in_high), min);
      if (high) second.wait();
      if (low) first.wait();
    }
    require(in_low[0] == 1 && in_high[599] == 10, "a value from elsewhere");
  });
}

TEST_CASE("long blocks are fetched from their owners, who may use their buffers at once afterwards",
          "[collectives][direct]") {
  for (const int size : {2, 3, 5}) {
    run_ranks(size, [size](Communicator& world) {
      const auto ranks = static_cast<std::size_t>(size);
      const std::size_t count = 70'001;
      const Options fetched{.algorithm = Algorithm::fetched};
      std::minstd_rand own(static_cast<unsigned>(world.rank()) + 1);
      const auto block_of = [](const std::vector<std::uint32_t>& all, int rank) {
        return std::span(all).subspan(static_cast<std::size_t>(rank) * count, count);
      };
      for (std::uint32_t round = 0; round < rounds(20U); ++round) {
        const int root = static_cast<int>(round) % size;
        dawdle(own);
        auto long_one = vector_of(round, world.rank(), count * ranks);
        auto block = vector_of(round + 1000, world.rank(), count);
        const std::size_t own_block = static_cast<std::size_t>(world.rank()) * count;

        scatter(world, std::span<const std::uint32_t>(long_one), std::span(block), root, fetched);
        std::fill(long_one.begin(), long_one.end(), 0xdeadbeefU);
        require(block == vector_of(round, root, count, own_block), "scatter");

        std::vector<std::uint32_t> all(count * ranks);
        gather(world, std::span<const std::uint32_t>(block), std::span(all), root, fetched);
        std::fill(block.begin(), block.end(), 0xdeadbeefU);
        require(world.rank() != root || all == vector_of(round, root, count * ranks), "gather");

        block = vector_of(round, world.rank(), count);
        broadcast(world, std::span(block), root, fetched);
        const bool right = world.rank() == root || block == vector_of(round, root, count);
        std::fill(block.begin(), block.end(), 0xdeadbeefU);
        require(right, "broadcast");

        auto mine = vector_of(round, world.rank(), count * ranks);
        const auto check_exchanged = [&](const std::vector<std::uint32_t>& got, const char* what) {
          for (int from = 0; from < size; ++from) {
            require(std::ranges::equal(block_of(got, from), vector_of(round, from, count, own_block)), what);
          }
        };
        all_to_all(world, std::span<const std::uint32_t>(mine), std::span(all), fetched);
        auto in_place = mine;
        std::fill(mine.begin(), mine.end(), 0xdeadbeefU);
        check_exchanged(all, "all_to_all");
        all_to_all(world, std::span(in_place), fetched);
        check_exchanged(in_place, "all_to_all in place");
      }
    });
  }
}

TEST_CASE("elements that do not fit the shared memory go by messages", "[collectives][direct]") {
  run_ranks(3, [](Communicator& world) {
    std::vector<Huge> data(2);
    data[1].words[99'999] = static_cast<std::uint64_t>(world.rank()) + 1;
    all_reduce(world, std::span(data), commuting([](const Huge& a, const Huge& b) {
                 Huge sum_of_both = a;
                 sum_of_both.words[99'999] += b.words[99'999];
                 return sum_of_both;
               }));
    require(data[1].words[99'999] == 6, "all_reduce of huge elements");
  });
}

TEST_CASE("calls that differ where nobody waits are found out by the next", "[collectives][direct]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    std::vector<float> data(8);
    barrier(world);
    if (world.rank() == 0) broadcast(world, std::span(data), 0);
    if (world.rank() == 1) reduce(world, std::span(data), sum, 0);
    if (world.rank() == 2) reduce(world, std::span(data), sum, 0);
    barrier(world);
  });
  for (const auto& outcome : outcomes) {
    INFO(outcome.error);
    CHECK(outcome.code == Errc::collective_mismatch);
  }
}

TEST_CASE("direct algorithms are refused among ranks that do not share memory", "[collectives][direct]") {
  Config config;
  config.transport = Transport::unix_socket;
  run_ranks(
      2,
      [](Communicator& world) {
        std::vector<float> data(8, 1);
        all_reduce(world, std::span(data), sum);
        require(data[0] == 2, "by messages");
        std::string said;
        try {
          all_reduce(world, std::span(data), sum, {.algorithm = Algorithm::sliced});
        } catch (const Error& error) {
          if (error.code() == Errc::invalid_argument) said = error.what();
        }
        require(said.find("do not share memory has no algorithm sliced") != std::string::npos, "got: " + said);
        barrier(world);
      },
      config);
}

TEST_CASE("what a variable names for ranks that share memory is passed over among others", "[collectives][direct]") {
  Config config = Config::from({{"RONDO_ALGORITHM", "all_reduce=sliced,all_to_all=fetched"}});
  config.transport = GENERATE(Transport::shm, Transport::unix_socket);
  run_ranks(
      2,
      [](Communicator& world) {
        std::vector<float> data(8, 1), of_all(8);
        all_reduce(world, std::span(data), sum);
        const std::vector<std::size_t> each(2, 4);
        all_to_all(world, std::span(data), std::span(of_all), each, each);  // by counts, which rule it out
        require(of_all == std::vector<float>(8, 2), "all_to_all by counts");
        all_to_all(world, std::span(data));
        require(data == of_all, "all_to_all");
      },
      config);
}
