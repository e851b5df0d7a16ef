// Collectives that are done on the spot in shared memory, without a coroutine, and again with the same buffers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/collectives/vector_of.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;

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
