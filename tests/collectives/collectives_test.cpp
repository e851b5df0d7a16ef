#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/collectives/expected.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

// Every collective, with the algorithm that the table chooses and with every other, over real links between threads:
// odd worlds, odd counts, every root, in place and not, blocking and not. What each algorithm does to ranges is tested
// in algorithm_test.cpp; here it is the way from the caller's buffers to the links and back.

using namespace rondo;
using namespace rondo::testing;

namespace {

constexpr int kSizes[] = {1, 2, 3, 4, 5, 7, 8, 16};

std::vector<std::size_t> counts_for(int size) { return {0, 1, static_cast<std::size_t>(size - 1), 1000}; }

/// "ring, 7 ranks x 1000, root 2" for the message of a failure.
std::string name(const Options& options, int size, std::size_t count, int root = -1) {
  std::string text(to_string(options.algorithm));
  text += ", " + std::to_string(size) + " ranks x " + std::to_string(count);
  return root < 0 ? text : text + ", root " + std::to_string(root);
}

/// The table's choice, then each algorithm by name, in small chunks so that pipelines have something to do.
template <typename Body>
void with_every_algorithm(Collective collective, const Body& body) {
  body(Options{});
  for (const Algorithm algorithm : algorithms_of(collective)) body(Options{algorithm, 256});
  for (const Algorithm algorithm : shared_algorithms_of(collective)) body(Options{algorithm, 256});
}

/// A different length for every rank, some of them 0.
std::vector<std::size_t> uneven(int size, std::size_t around) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(size));
  for (std::size_t r = 0; r < counts.size(); ++r) counts[r] = r % 3 == 1 ? 0 : around + r;
  return counts;
}

std::size_t begin_of(const std::vector<std::size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

template <typename Body>
void for_all_sizes(const Body& body) {
  for (const int size : kSizes) run_ranks(size, body);
}

}  // namespace

TEST_CASE("all_reduce gives every rank the sum", "[collectives][all_reduce]") {
  for_all_sizes([](Communicator& world) {
    const int size = world.size();
    with_every_algorithm(Collective::all_reduce, [&](const Options& options) {
      for (const std::size_t count : counts_for(size)) {
        const auto wanted = [&](std::size_t i) { return reduced<int>(size, i, sum); };
        const auto in = input_of<int>(world.rank(), count);
        Elements<int> out(count);
        all_reduce(world, in.span(), out.span(), sum, options);
        require_elements(out, wanted, name(options, size, count));
        require_elements(
            in, [&](std::size_t i) { return element<int>(world.rank(), i); }, "the input changed");

        auto inout = input_of<int>(world.rank(), count);
        all_reduce(world, inout.span(), sum, options);
        require_elements(inout, wanted, name(options, size, count) + ", in place");

        auto later = input_of<int>(world.rank(), count);
        Work work = iall_reduce(world, later.span(), later.span(), sum, options);
        work.wait();
        require_elements(later, wanted, name(options, size, count) + ", asynchronous");
      }
    });
  });
}

TEST_CASE("reduce gives the root the sum and leaves the others' input alone", "[collectives][reduce]") {
  for_all_sizes([](Communicator& world) {
    const int size = world.size();
    with_every_algorithm(Collective::reduce, [&](const Options& options) {
      for (int root = 0; root < size; ++root) {
        for (const std::size_t count : counts_for(size)) {
          const bool mine = world.rank() == root;
          const auto wanted = [&](std::size_t i) { return reduced<int>(size, i, sum); };
          const auto in = input_of<int>(world.rank(), count);
          Elements<int> out(mine ? count : 0);
          reduce(world, in.span(), out.span(), sum, root, options);
          require_elements(out, wanted, name(options, size, count, root));

          auto inout = input_of<int>(world.rank(), count);
          ireduce(world, inout.span(), sum, root, options).wait();
          const auto unchanged = [&](std::size_t i) { return element<int>(world.rank(), i); };
          if (mine) require_elements(inout, wanted, name(options, size, count, root) + ", in place");
          if (!mine) require_elements(inout, unchanged, name(options, size, count, root) + ", not the root");
        }
      }
    });
  });
}

TEST_CASE("broadcast gives every rank the root's vector", "[collectives][broadcast]") {
  for_all_sizes([](Communicator& world) {
    with_every_algorithm(Collective::broadcast, [&](const Options& options) {
      for (int root = 0; root < world.size(); ++root) {
        for (const std::size_t count : counts_for(world.size())) {
          const auto wanted = [&](std::size_t i) { return element<double>(root, i); };
          auto data = input_of<double>(world.rank(), count);
          broadcast(world, data.span(), root, options);
          require_elements(data, wanted, name(options, world.size(), count, root));

          auto later = input_of<double>(world.rank(), count);
          ibroadcast(world, later.span(), root, options).wait();
          require_elements(later, wanted, name(options, world.size(), count, root) + ", asynchronous");
        }
      }
    });
  });
}

TEST_CASE("scatter deals the root's blocks out", "[collectives][scatter]") {
  for_all_sizes([](Communicator& world) {
    const int size = world.size();
    const int rank = world.rank();
    with_every_algorithm(Collective::scatter, [&](const Options& options) {
      for (int root = 0; root < size; ++root) {
        const std::size_t count = 9;
        auto in = input_of<int>(root, rank == root ? count * at(size) : 0);
        const auto wanted = [&](std::size_t i) { return element<int>(root, at(rank) * count + i); };
        Elements<int> out(count);
        scatter(world, in.span(), out.span(), root, options);
        require_elements(out, wanted, name(options, size, count, root));

        Elements<int> apart(count);
        const auto own = rank == root ? in.span().subspan(at(rank) * count, count) : apart.span();
        iscatter(world, in.span(), own, root, options).wait();
        if (rank == root) {
          require_elements(
              in, [&](std::size_t i) { return element<int>(root, i); }, "the root's blocks moved");
        } else {
          require_elements(apart, wanted, name(options, size, count, root) + ", in place at the root");
        }

        const auto counts = uneven(size, 4);
        const auto blocks = input_of<int>(root, rank == root ? begin_of(counts, size) : 0);
        Elements<int> block(counts[at(rank)]);
        scatter(world, blocks.span(), block.span(), counts, root, options);
        const auto of_block = [&](std::size_t i) { return element<int>(root, begin_of(counts, rank) + i); };
        require_elements(block, of_block, name(options, size, 4, root) + ", by counts");
      }
    });
  });
}

TEST_CASE("gather collects every rank's block at the root", "[collectives][gather]") {
  for_all_sizes([](Communicator& world) {
    const int size = world.size();
    const int rank = world.rank();
    with_every_algorithm(Collective::gather, [&](const Options& options) {
      for (int root = 0; root < size; ++root) {
        const std::size_t count = 9;
        const auto in = input_of<int>(rank, count);
        Elements<int> out(rank == root ? count * at(size) : 0);
        const auto wanted = [&](std::size_t i) { return element<int>(static_cast<int>(i / count), i % count); };
        gather(world, in.span(), out.span(), root, options);
        require_elements(out, wanted, name(options, size, count, root));

        Elements<int> inout(rank == root ? count * at(size) : count);
        const auto own = rank == root ? inout.span().subspan(at(rank) * count, count) : inout.span();
        for (std::size_t i = 0; i < count; ++i) own[i] = in[i];
        igather(world, own, rank == root ? inout.span() : std::span<int>{}, root, options).wait();
        if (rank == root) require_elements(inout, wanted, name(options, size, count, root) + ", in place at the root");

        const auto counts = uneven(size, 4);
        const auto block = input_of<int>(rank, counts[at(rank)]);
        Elements<int> blocks(rank == root ? begin_of(counts, size) : 0);
        gather(world, block.span(), blocks.span(), counts, root, options);
        for (int from = 0; from < size && rank == root; ++from) {
          for (std::size_t i = 0; i < counts[at(from)]; ++i) {
            require(blocks[begin_of(counts, from) + i] == element<int>(from, i), "gather by counts");
          }
        }
      }
    });
  });
}

TEST_CASE("all_gather collects every rank's block everywhere", "[collectives][all_gather]") {
  for_all_sizes([](Communicator& world) {
    const int size = world.size();
    const int rank = world.rank();
    with_every_algorithm(Collective::all_gather, [&](const Options& options) {
      for (const std::size_t count : counts_for(size)) {
        const auto wanted = [&](std::size_t i) { return element<int>(static_cast<int>(i / count), i % count); };
        const auto in = input_of<int>(rank, count);
        Elements<int> out(count * at(size));
        all_gather(world, in.span(), out.span(), options);
        require_elements(out, wanted, name(options, size, count));

        Elements<int> inout(count * at(size));
        for (std::size_t i = 0; i < count; ++i) inout[at(rank) * count + i] = in[i];
        Elements<int> again(count * at(size));
        for (std::size_t i = 0; i < count; ++i) again[at(rank) * count + i] = in[i];
        all_gather(world, inout.span(), options);
        require_elements(inout, wanted, name(options, size, count) + ", in place");
        iall_gather(world, again.span().subspan(at(rank) * count, count), again.span(), options).wait();
        require_elements(again, wanted, name(options, size, count) + ", own block of the output");
      }
      const auto counts = uneven(size, 300);
      const auto block = input_of<int>(rank, counts[at(rank)]);
      Elements<int> blocks(begin_of(counts, size));
      all_gather(world, block.span(), blocks.span(), counts, options);
      Elements<int> inout(begin_of(counts, size));
      for (std::size_t i = 0; i < block.size(); ++i) inout[begin_of(counts, rank) + i] = block[i];
      iall_gather(world, inout.span(), counts, options).wait();
      for (int from = 0; from < size; ++from) {
        for (std::size_t i = 0; i < counts[at(from)]; ++i) {
          const std::size_t place = begin_of(counts, from) + i;
          require(blocks[place] == element<int>(from, i), "all_gather by counts");
          require(inout[place] == element<int>(from, i), "all_gather by counts, in place");
        }
      }
    });
  });
}

TEST_CASE("reduce_scatter gives every rank its block of the sum", "[collectives][reduce_scatter]") {
  for_all_sizes([](Communicator& world) {
    const int size = world.size();
    const int rank = world.rank();
    with_every_algorithm(Collective::reduce_scatter, [&](const Options& options) {
      for (const std::size_t count : counts_for(size)) {
        const std::size_t first = at(rank) * count;
        const auto wanted = [&](std::size_t i) { return reduced<int>(size, first + i, sum); };
        const auto in = input_of<int>(rank, count * at(size));
        Elements<int> out(count);
        reduce_scatter(world, in.span(), out.span(), sum, options);
        require_elements(out, wanted, name(options, size, count));

        auto inout = input_of<int>(rank, count * at(size));
        ireduce_scatter(world, inout.span(), sum, options).wait();
        require_elements(
            inout,
            [&](std::size_t i) {
              const bool own = i >= first && i < first + count;
              return own ? wanted(i - first) : element<int>(rank, i);
            },
            name(options, size, count) + ", in place");
      }
      const auto counts = uneven(size, 300);
      const auto in = input_of<int>(rank, begin_of(counts, size));
      Elements<int> out(counts[at(rank)]);
      reduce_scatter(world, in.span(), out.span(), counts, sum, options);
      const auto of_block = [&](std::size_t i) { return reduced<int>(size, begin_of(counts, rank) + i, sum); };
      require_elements(out, of_block, name(options, size, 300) + ", by counts");
    });
  });
}

TEST_CASE("all_to_all gives every rank what every other has for it", "[collectives][all_to_all]") {
  for_all_sizes([](Communicator& world) {
    const int size = world.size();
    const int rank = world.rank();
    for (const std::size_t count : counts_for(size)) {
      const auto wanted = [&](std::size_t i) {
        return element<int>(static_cast<int>(i / count), at(rank) * count + i % count);
      };
      const auto in = input_of<int>(rank, count * at(size));
      Elements<int> out(count * at(size));
      all_to_all(world, in.span(), out.span());
      require_elements(out, wanted, name({}, size, count));

      auto inout = input_of<int>(rank, count * at(size));
      iall_to_all(world, inout.span()).wait();
      require_elements(inout, wanted, name({}, size, count) + ", in place");
    }
    // Rank s sends s + 2r elements to rank r.
    std::vector<std::size_t> to(at(size));
    std::vector<std::size_t> from(at(size));
    for (std::size_t r = 0; r < at(size); ++r) {
      to[r] = at(rank) + 2 * r;
      from[r] = r + 2 * at(rank);
    }
    Elements<int> in(begin_of(to, size));
    for (int r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < to[at(r)]; ++i) in[begin_of(to, r) + i] = rank * 1000 + r * 100 + static_cast<int>(i);
    }
    Elements<int> out(begin_of(from, size));
    all_to_all(world, in.span(), out.span(), to, from);
    for (int r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < from[at(r)]; ++i) {
        require(out[begin_of(from, r) + i] == r * 1000 + rank * 100 + static_cast<int>(i), "all_to_all by counts");
      }
    }
  });
}

TEST_CASE("a long block that a rank keeps gets to its place by messages, too", "[collectives]") {
  run_ranks(3, [](Communicator& world) {
    CommunicatorAccess::engine(world)->pretend_caches({0, 1});
    const int rank = world.rank();
    constexpr std::size_t kCount = (std::size_t{1} << 18) + 3;  // 1 MiB, and not the whole of a vector register
    const auto block = input_of<int>(rank, kCount);
    const auto blocks = input_of<int>(rank, 3 * kCount);

    Elements<int> gathered(rank == 0 ? 3 * kCount : 0);
    gather(world, block.span(), gathered.span(), 0, {Algorithm::linear});
    const auto of_all = [&](std::size_t i) { return element<int>(static_cast<int>(i / kCount), i % kCount); };
    require_elements(gathered, of_all, "gather");

    Elements<int> scattered(kCount);
    scatter(world, rank == 0 ? blocks.span() : blocks.span().first(0), scattered.span(), 0, {Algorithm::linear});
    require_elements(
        scattered, [&](std::size_t i) { return element<int>(0, at(rank) * kCount + i); }, "scatter");

    Elements<int> exchanged(3 * kCount);
    all_to_all(world, blocks.span(), exchanged.span(), {Algorithm::pairwise});
    const auto of_each = [&](std::size_t i) {
      return element<int>(static_cast<int>(i / kCount), at(rank) * kCount + i % kCount);
    };
    require_elements(exchanged, of_each, "all_to_all");
  });
}

TEST_CASE("nobody leaves a barrier before everybody has come", "[collectives][barrier]") {
  for (const int size : kSizes) {
    std::atomic<int> arrived{0};
    run_ranks(size, [&](Communicator& world) {
      for (int round = 1; round <= 3; ++round) {
        ++arrived;
        barrier(world);
        require(arrived.load() >= round * world.size(), "left the barrier early");
        ibarrier(world).wait();
      }
    });
  }
}

TEST_CASE("a root that waits for nobody goes ahead as far as the others keep memory for it", "[collectives]") {
  constexpr std::size_t kAhead = 1024;
  Config config;
  config.transport = Transport::unix_socket;
  config.unexpected_bytes = 2 * kAhead * detail::Peer::cost_of(sizeof(int));
  run_ranks(
      2,
      [](Communicator& world) {
        constexpr std::size_t kCollectives = 3000;
        std::vector<int> values(kCollectives);
        if (world.rank() == 0) std::iota(values.begin(), values.end(), 0);
        std::vector<Work> works;
        const auto begin_all = [&] {
          for (int& value : values) works.push_back(ibroadcast(world, std::span(&value, 1), 0));
        };
        int word = 1;
        if (world.rank() == 0) {
          world.recv(std::span(&word, 1), 1);  // from now on they are connected
          begin_all();
          const auto gone = std::count_if(works.begin(), works.end(), [](Work& work) { return work.test(); });
          world.send(std::span(&word, 1), 1);
          wait_all(works);
          require(gone == kAhead, std::to_string(gone) + " went ahead");
        } else {
          world.send(std::span(&word, 1), 0);
          world.recv(std::span(&word, 1), 0);
          begin_all();
          wait_all(works);
        }
        for (std::size_t i = 0; i < kCollectives; ++i) require(values[i] == static_cast<int>(i), "another's value");
      },
      config);
}
