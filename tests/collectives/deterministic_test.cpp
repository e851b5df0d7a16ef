// Options::deterministic: the result is the left fold in rank order, rounded after every step, whatever carries it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <rondo/algorithms.hpp>
#include <rondo/rondo.hpp>

#include "tests/collectives/pretended_hosts.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/rounds.hpp"

using namespace rondo;
using namespace rondo::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// As many floats as go in windows and pieces, by a rendezvous, or are read where they are.
constexpr std::size_t kMany = 300'001;

/// Those of ranks that share memory among them, where these do.
std::vector<Algorithm> every_algorithm_of(Collective collective, Transport transport) {
  const auto by_messages = algorithms_of(collective), shared = shared_algorithms_of(collective);
  std::vector<Algorithm> algorithms(by_messages.begin(), by_messages.end());
  if (transport == Transport::shm) algorithms.insert(algorithms.end(), shared.begin(), shared.end());
  return algorithms;
}

/// Values of many magnitudes and all digits that a float has, so that every other order of the sum has other bits.
template <typename T>
std::vector<T> values(int rank, std::size_t count) {
  std::minstd_rand random(static_cast<unsigned>(rank) * 7919 + 1);
  std::vector<T> data(count);
  for (T& value : data) {
    const auto digits = static_cast<float>(random() % (1U << 24)) / 4096.0F - 2048.0F;
    value = static_cast<T>(digits / static_cast<float>(1U << (random() % 12)));
  }
  return data;
}

template <typename T>
std::vector<T> left_fold(int ranks, std::size_t count) {
  std::vector<T> folded = values<T>(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<T> next = values<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) folded[i] = static_cast<T>(folded[i] + next[i]);
  }
  return folded;
}

template <typename T>
void check_all(Communicator& world, std::size_t count, const Options& options, std::minstd_rand& delays) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::string what = std::to_string(count) + " elements of " + std::string(to_string(element_type_of<T>));
  const std::vector<T> wanted = left_fold<T>(world.size(), count);

  auto data = values<T>(world.rank(), count);
  dawdle(delays);
  all_reduce(world, std::span(data), sum, options);
  require(data == wanted, "all_reduce of " + what);

  for (int root = 0; root < world.size(); ++root) {
    data = values<T>(world.rank(), count);
    dawdle(delays);
    reduce(world, std::span(data), sum, root, options);
    require(world.rank() != root || data == wanted, "reduce of " + what);
  }

  const std::size_t share = count / ranks;
  const std::vector<T> whole = values<T>(world.rank(), count);
  std::vector<T> own(share);
  dawdle(delays);
  reduce_scatter(world, std::span(whole).first(share * ranks), std::span(own), sum, options);
  const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(share * static_cast<std::size_t>(world.rank()));
  require(std::equal(own.begin(), own.end(), begin), "reduce_scatter of " + what);
}

void check_everything(Communicator& world, const Options& options) {
  std::minstd_rand delays(static_cast<unsigned>(world.rank()) + 1);
  for (const std::size_t count : {1U, 7U, 40U, 5000U}) {
    check_all<float>(world, count, options, delays);
    check_all<float16>(world, count, options, delays);
    check_all<bfloat16>(world, count, options, delays);
  }
  if (options.chunk_bytes == 0) check_all<float>(world, kMany, options, delays);
}

}  // namespace

TEST_CASE("deterministic results are the same bits over every transport, for every count and chunk",
          "[collectives][deterministic]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::unix_socket, Transport::tcp);
  const int size = GENERATE(2, 3, 5);
  run_ranks(
      size,
      [](Communicator& world) {
        for (const std::size_t chunk : {0U, 64U, 4096U}) {
          check_everything(world, {.chunk_bytes = chunk, .deterministic = true});
        }
      },
      config);
}

TEST_CASE("deterministic results are the same bits on several hosts", "[collectives][deterministic]") {
  for (const Table& hosts : {Table{0, 0, 1, 1}, Table{0, 1, 0, 1, -1}}) {
    run_on_hosts(hosts, [](Communicator& comm) { check_everything(comm, {.deterministic = true}); });
  }
}

TEST_CASE("RONDO_DETERMINISTIC makes every call so", "[collectives][deterministic]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::unix_socket);
  config.deterministic = true;
  run_ranks(
      4, [](Communicator& world) { check_everything(world, {}); }, config);
}

TEST_CASE("each algorithm gives all ranks the same bits in every run, whatever the timing",
          "[collectives][deterministic]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::tcp);
  const int size = GENERATE(2, 3, 5);
  const auto body = [&config](Communicator& world) {
    std::minstd_rand delays(static_cast<unsigned>(world.rank()) + 1);
    const auto same_in_all = [&](int runs, const std::string& what, const std::function<void(std::span<float>)>& run,
                                 std::size_t count) {
      std::vector<float> first(count), next(count);
      for (int i = 0; i < runs; ++i) {
        dawdle(delays);
        run(i == 0 ? first : next);
        require(i == 0 || next == first, "other bits in another run of " + what);
      }
      return first;
    };
    const auto check_runs = [&](std::size_t count, int runs, const Options& options) {
      const std::string what = std::to_string(count) + " elements by " + std::string(to_string(options.algorithm));
      const std::vector<float> input = values<float>(world.rank(), count);
      const auto all_reduced = same_in_all(
          runs, "all_reduce of " + what,
          [&](std::span<float> out) { all_reduce(world, std::span(input), out, sum, options); }, count);
      std::vector<float> of_all(count * static_cast<std::size_t>(world.size()));
      all_gather(world, std::span<const float>(all_reduced), std::span(of_all));
      for (auto own = of_all.begin(); own != of_all.end(); own += static_cast<std::ptrdiff_t>(count)) {
        require(std::equal(all_reduced.begin(), all_reduced.end(), own), "other bits on another rank of " + what);
      }
    };
    for (const Algorithm algorithm : every_algorithm_of(Collective::all_reduce, config.transport)) {
      for (const std::size_t chunk : {0U, 1000U}) check_runs(3001, rounds(20), {algorithm, chunk});
      check_runs(kMany, rounds(8), {algorithm});
    }
    for (const std::size_t count : {std::size_t{3001}, kMany / 4}) {
      const std::vector<float> input = values<float>(world.rank(), count * static_cast<std::size_t>(world.size()));
      const std::span<const float> whole(input), block = whole.first(count);
      for (const Algorithm algorithm : every_algorithm_of(Collective::reduce, config.transport)) {
        same_in_all(
            rounds(8), "reduce by " + std::string(to_string(algorithm)),
            [&](std::span<float> out) { reduce(world, block, out, sum, 1, {algorithm}); },
            world.rank() == 1 ? count : 0);
      }
      for (const Algorithm algorithm : every_algorithm_of(Collective::reduce_scatter, config.transport)) {
        same_in_all(
            rounds(8), "reduce_scatter by " + std::string(to_string(algorithm)),
            [&](std::span<float> out) { reduce_scatter(world, whole, out, sum, {algorithm}); }, count);
      }
    }
  };
  run_ranks(size, body, config);
}

TEST_CASE("an algorithm that does not keep rank order is refused", "[collectives][deterministic]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<float> data(8);
    all_reduce(world, std::span(data), sum, {.algorithm = Algorithm::ring, .deterministic = true});
  });
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.code == Errc::invalid_argument);
    CHECK_THAT(outcome.error, ContainsSubstring("all_reduce with Options::deterministic has no algorithm ring"));
    CHECK_THAT(outcome.error, ContainsSubstring("chain"));
  }
}

TEST_CASE("ranks that do not agree on it are told", "[collectives][deterministic]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    std::vector<float16> data(8);
    all_reduce(world, std::span(data), sum, {.deterministic = world.rank() == 1});
    barrier(world);
  });
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.code == Errc::collective_mismatch);
    CHECK_THAT(outcome.error, ContainsSubstring("rank 1 called all_reduce(half x 8, sum, direct, deterministic)"));
  }
}
