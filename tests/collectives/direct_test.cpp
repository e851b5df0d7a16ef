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
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/rounds.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

// Elements `begin` to `begin + count` of a rank's vector.
std::vector<std::uint32_t> vector_of(std::uint32_t seed, int rank, std::size_t count, std::size_t begin = 0) {
  std::vector<std::uint32_t> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = seed * 31 + static_cast<std::uint32_t>(rank) * 1000 + static_cast<std::uint32_t>(begin + i);
  return data;
}

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
TEST_CASE("every short collective is right again on the same buffers", "[collectives][direct]") {
  // In slots, in staging, and with the own block left out of what is laid out.
  const std::size_t share = GENERATE(std::size_t{3}, std::size_t{255}, std::size_t{256}, std::size_t{5'000});
  const int from_last = GENERATE(0, 1);
  for (const int size : {2, 3, 5}) {
    run_ranks(size, [share, from_last](Communicator& world) {
      const auto ranks = static_cast<std::size_t>(world.size());
      const auto me = static_cast<std::size_t>(world.rank());
      const int root = world.size() - 1 - from_last;
      const bool at_root = world.rank() == root;
      std::vector<std::uint32_t> part(share), part_of(share), all(ranks * share), all_of(ranks * share);
      // What rank `from` has for rank `to`.
      const auto sent = [](std::uint32_t round, std::size_t from, std::size_t to, std::size_t i) {
        return static_cast<std::uint32_t>(((round * 10 + from) * 10 + to) * 100'000 + i);
      };
      const auto check = [&](std::span<const std::uint32_t> got, const auto& wanted, const char* what) {
        for (std::size_t i = 0; i < got.size(); ++i) require(got[i] == wanted(i / share, i % share), what);
      };
      std::uint32_t round = 0;
      const auto fill = [&](std::span<std::uint32_t> data) {
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = sent(round, me, i / share, i % share);
      };
      const auto total = [&](std::size_t to, std::size_t i) {
        std::uint32_t sum_of_all = 0;
        for (std::size_t from = 0; from < ranks; ++from) sum_of_all += sent(round, from, to, i);
        return sum_of_all;
      };
      const auto my_total = [&](std::size_t, std::size_t i) { return total(me, i); };
      const auto firsts = [&](std::size_t from, std::size_t i) { return sent(round, from, 0, i); };
      const auto for_me = [&](std::size_t from, std::size_t i) { return sent(round, from, me, i); };
      const auto of_root = [&](std::size_t to, std::size_t i) {
        return sent(round, static_cast<std::size_t>(root), to, i);
      };
      const auto my_share = [&](std::size_t, std::size_t i) {
        return sent(round, static_cast<std::size_t>(root), me, i);
      };
      const std::span<const std::uint32_t> in(all), part_in(part);
      const auto again = [&](const auto& step) {
        for (int times = 0; times < 4; ++times) {
          ++round;
          fill(all);
          fill(part);
          step();
        }
      };
      again([&] {
        all_reduce(world, in, std::span(all_of), sum);
        check(all_of, total, "all_reduce");
      });
      again([&] {
        all_reduce(world, std::span(all), sum);
        check(all, total, "all_reduce in place");
      });
      again([&] {
        reduce(world, in, std::span(all_of), sum, root);
        if (at_root) check(all_of, total, "reduce");
      });
      again([&] {
        reduce_scatter(world, in, std::span(part_of), sum);
        check(part_of, my_total, "reduce_scatter");
      });
      again([&] {
        all_to_all(world, in, std::span(all_of));
        check(all_of, for_me, "all_to_all");
      });
      again([&] {
        all_to_all(world, std::span(all));
        check(all, for_me, "all_to_all in place");
      });
      again([&] {
        scatter(world, in, std::span(part_of), root);
        check(part_of, my_share, "scatter");
      });
      again([&] {
        gather(world, part_in, std::span(all_of), root);
        if (at_root) check(all_of, firsts, "gather");
      });
      again([&] {
        all_gather(world, part_in, std::span(all_of));
        check(all_of, firsts, "all_gather");
      });
      again([&] {
        broadcast(world, std::span(all), root);
        check(all, of_root, "broadcast");
      });
    });
  }
}

TEST_CASE("who starts a collective and who blocks in it lay out in the same places", "[collectives][direct]") {
  run_ranks(2, [](Communicator& world) {
    const Options in_chunks{Algorithm::direct, 8192};
    for (std::uint32_t round = 0; round < 20; ++round) {
      auto long_one = vector_of(round, world.rank(), 20'000);
      broadcast(world, std::span(long_one), 0, in_chunks);
      require(long_one == vector_of(round, 0, long_one.size()), "in chunks");
      const auto mine = vector_of(round, world.rank(), 2'000);
      std::vector<std::uint32_t> all(2 * mine.size());
      if (static_cast<int>(round % 2) == world.rank()) {
        all_gather(world, std::span(mine), std::span(all), in_chunks);
      } else {
        iall_gather(world, std::span(mine), std::span(all), in_chunks).wait();
      }
      for (int rank = 0; rank < 2; ++rank) {
        const auto part = std::span(all).subspan(static_cast<std::size_t>(rank) * mine.size(), mine.size());
        require(std::ranges::equal(part, vector_of(round, rank, mine.size())), "one chunk");
      }
    }
  });
}

TEST_CASE("a message that was left unfinished gets on beside collectives that are done on the spot",
          "[collectives][direct]") {
  run_ranks(2, [](Communicator& world) {
    barrier(world);
    std::byte first{};
    if (world.rank() == 1) world.send(std::span(&first, 1), 0);
    if (world.rank() == 0) world.recv(std::span(&first, 1), 1);
    // Too long to go before its receiver has answered.
    std::vector<std::byte> message(100'000);
    for (int round = 0; round < 20; ++round) {
      Work work = world.rank() == 0 ? world.irecv(std::span(message), 1) : world.isend(std::span(message), 0);
      // Asked for before the first, answered before the second, gone before the third.
      int one = 1;
      for (int i = 0; i < 4; ++i) all_reduce(world, std::span(&one, 1), max);
      int gone = world.rank() == 1 && work.test() ? 1 : 0;
      all_reduce(world, std::span(&gone, 1), max);
      work.wait();
      require(gone == 1, "nobody looked for it");
    }
  });
}

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
