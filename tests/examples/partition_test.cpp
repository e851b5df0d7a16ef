#include "digits/partition.hpp"

#include <algorithm>
#include <numeric>

#include "tests/support/catch.hpp"

namespace {

constexpr std::size_t kSamples = 203;
constexpr std::size_t kBatch = 10;
constexpr std::uint32_t kSeed = 5;

/// The samples of one step, those of rank 0 first.
std::vector<std::size_t> global_batch(std::vector<Partition>& ranks, std::size_t step) {
  std::vector<std::size_t> batch;
  for (const auto& rank : ranks) {
    const auto samples = rank.samples(step);
    batch.insert(batch.end(), samples.begin(), samples.end());
  }
  return batch;
}

std::vector<Partition> shuffled(int size) {
  std::vector<Partition> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back(kSamples, kBatch, kSeed, rank, size);
    ranks.back().shuffle();
  }
  return ranks;
}

}  // namespace

TEST_CASE("shares cover everything and differ by at most one", "[examples][partition]") {
  for (const int size : {1, 2, 3, 4, 7, 16}) {
    for (const std::size_t count : {0U, 1U, 6U, 7U, 64U, 1000U}) {
      std::size_t end = 0;
      for (int rank = 0; rank < size; ++rank) {
        const auto share = share_of(count, rank, size);
        CHECK(share.begin == end);
        CHECK((share.end - share.begin) - count / static_cast<std::size_t>(size) <= 1);
        end = share.end;
      }
      CHECK(end == count);
    }
  }
}

TEST_CASE("global batches are the same however many ranks there are", "[examples][partition]") {
  auto alone = shuffled(1);
  for (const int size : {2, 3, 4, 16}) {
    auto ranks = shuffled(size);
    REQUIRE(ranks[0].steps() == alone[0].steps());
    for (std::size_t step = 0; step < alone[0].steps(); ++step) {
      CHECK(global_batch(ranks, step) == global_batch(alone, step));
    }
  }
}

TEST_CASE("an epoch visits every sample once, the last batch with what is left", "[examples][partition]") {
  auto ranks = shuffled(3);
  CHECK(ranks[0].steps() == 21);
  CHECK(ranks[0].global_count(19) == 10);
  CHECK(ranks[0].global_count(20) == 3);
  std::vector<std::size_t> visited;
  for (std::size_t step = 0; step < 21; ++step) {
    const auto batch = global_batch(ranks, step);
    visited.insert(visited.end(), batch.begin(), batch.end());
  }
  std::vector<std::size_t> all(kSamples);
  std::iota(all.begin(), all.end(), std::size_t{0});
  CHECK(visited != all);
  std::sort(visited.begin(), visited.end());
  CHECK(visited == all);
}
