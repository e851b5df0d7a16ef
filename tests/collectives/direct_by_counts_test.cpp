// all_to_all by counts of ranks that share memory: blocks of any length, in one window or many, and wrong counts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/collectives/vector_of.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/rounds.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

/// How many elements each rank has for each, drawn by all alike.
class Counts {
 public:
  template <typename Draw>
  Counts(int size, Draw draw) : size_(static_cast<std::size_t>(size)), counts_(size_ * size_) {
    std::generate(counts_.begin(), counts_.end(), draw);
  }

  std::size_t of(int from, int to) const {
    return counts_[static_cast<std::size_t>(from) * size_ + static_cast<std::size_t>(to)];
  }
  std::vector<std::size_t> sent(int from) const {
    std::vector<std::size_t> counts;
    for (int to = 0; to < static_cast<int>(size_); ++to) counts.push_back(of(from, to));
    return counts;
  }
  std::vector<std::size_t> received(int to) const {
    std::vector<std::size_t> counts;
    for (int from = 0; from < static_cast<int>(size_); ++from) counts.push_back(of(from, to));
    return counts;
  }

 private:
  std::size_t size_;
  std::vector<std::size_t> counts_;
};

std::uint32_t block_seed(std::uint32_t seed, int from, int to) {
  return seed * 100 + static_cast<std::uint32_t>(from * 10 + to);
}

std::size_t total_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// What `rank` gives all, in `in`.
void fill(std::span<std::uint32_t> in, const Counts& counts, int rank, int size, std::uint32_t seed) {
  auto at = in.begin();
  for (int to = 0; to < size; ++to) {
    const auto block = vector_of(block_seed(seed, rank, to), rank, counts.of(rank, to));
    at = std::copy(block.begin(), block.end(), at);
  }
}

void check(std::span<const std::uint32_t> out, const Counts& counts, int rank, int size, std::uint32_t seed) {
  auto at = out.begin();
  for (int from = 0; from < size; ++from) {
    const auto block = vector_of(block_seed(seed, from, rank), from, counts.of(from, rank));
    require(std::equal(block.begin(), block.end(), at), "a block is wrong");
    at += static_cast<std::ptrdiff_t>(block.size());
  }
}

/// One exchange, checked.
void exchange(Communicator& world, const Counts& counts, std::uint32_t seed, bool blocking, const Options& options) {
  const auto sends = counts.sent(world.rank());
  const auto receives = counts.received(world.rank());
  std::vector<std::uint32_t> in(total_of(sends));
  std::vector<std::uint32_t> out(total_of(receives));
  fill(in, counts, world.rank(), world.size(), seed);
  if (blocking) {
    all_to_all(world, std::span(in), std::span(out), sends, receives, options);
  } else {
    iall_to_all(world, std::span(in), std::span(out), sends, receives, options).wait();
  }
  check(out, counts, world.rank(), world.size(), seed);
}

/// What becomes of an exchange in which rank 0 has `sent` elements for rank 1, who asks for `wanted`.
Outcome outcome_of(std::size_t sent, std::size_t wanted) {
  const auto outcomes = try_ranks(3, [&](Communicator& world) {
    const bool blocking = sent > wanted;
    std::vector<std::size_t> sends(3, 10), receives(3, 10);
    if (world.rank() == 0) sends[1] = sent;
    if (world.rank() == 1) receives[0] = wanted;
    const std::vector<int> in(total_of(sends));
    std::vector<int> out(total_of(receives));
    if (blocking) {
      all_to_all(world, std::span(in), std::span(out), sends, receives);
    } else {
      iall_to_all(world, std::span(in), std::span(out), sends, receives).wait();
    }
    barrier(world);
  });
  for (const int other : {0, 2}) CHECK(outcomes[static_cast<std::size_t>(other)].code == Errc::collective_mismatch);
  return outcomes[1];
}

}  // namespace

TEST_CASE("blocks of any length get to their places", "[collectives][direct]") {
  for (const int size : {1, 2, 3, 5}) {
    run_ranks(size, [size](Communicator& world) {
      constexpr std::size_t kLengths[] = {0, 0, 1, 7, 300, 5000, 70'000, 200'000};
      std::minstd_rand shared(3);
      std::minstd_rand own(static_cast<unsigned>(world.rank()) + 1);
      for (std::uint32_t i = 0; i < rounds(200U); ++i) {
        const std::size_t most = shared() % 8 == 0 ? 8 : 6;
        const Counts counts(size, [&] { return kLengths[shared() % most]; });
        dawdle(own);
        // Windows that some of the blocks fit into.
        exchange(world, counts, i, i % 2 == 0, {.chunk_bytes = i % 3 == 0 ? 2000U : 0U});
      }
    });
  }
}

TEST_CASE("a chunk may be as large as a number can be", "[collectives][direct]") {
  run_ranks(8, [](Communicator& world) {
    const std::vector<std::size_t> counts(8, 3);
    const std::vector<double> in(24, world.rank());
    for (int round = 0; round < rounds(100); ++round) {
      std::vector<double> out(24);
      all_to_all(world, std::span(in), std::span(out), counts, counts,
                 {.chunk_bytes = std::numeric_limits<std::size_t>::max()});
      for (int from = 0; from < 8; ++from) {
        require(std::count(out.begin() + 3 * from, out.begin() + 3 * from + 3, from) == 3, "a block is wrong");
      }
    }
  });
}

TEST_CASE("who has another number of elements than is asked for is named at once", "[collectives][mismatch]") {
  // In one window, and in many.
  for (const std::size_t count : {std::size_t{10}, std::size_t{500'000}}) {
    const std::pair<std::size_t, std::size_t> wrong[] = {
        {0, count}, {count - 1, count}, {count, count - 1}, {count, 0}};
    for (const auto& [sent, wanted] : wrong) {
      const std::string text = wanted == 0 ? "rank 0 sent more in all_to_all("
                                           : "rank 0 sent " + std::to_string(sent * sizeof(int)) +
                                                 " bytes where rank 1 expected " +
                                                 std::to_string(wanted * sizeof(int)) + ": counts differ";
      const Outcome outcome = outcome_of(sent, wanted);
      CHECK(outcome.code == Errc::collective_mismatch);
      CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring(text));
    }
  }
}
