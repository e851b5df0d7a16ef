// Options::deterministic: the result is the left fold in rank order, rounded after every step, whatever carries it.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rondo/algorithms.hpp>
#include <rondo/rondo.hpp>

#include "tests/collectives/pretended_hosts.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/rounds.hpp"
#include "tests/support/same_bits.hpp"

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

using Random = std::mt19937_64;

/// All digits that a T has, between 1 and 2: a product of some is in range.
template <typename T>
T digits(Random& random) {
  return static_cast<T>(1 + std::ldexp(static_cast<double>(random() >> 11), -53));
}

/// And of many magnitudes and both signs.
template <typename T>
T scattered(Random& random) {
  const double value = std::ldexp(digits<double>(random), static_cast<int>(random() % 12));
  return static_cast<T>(random() % 2 == 0 ? value : -value);
}

/// x -> scale * x + shift, one after the other: associative but for what is rounded, and not commutative.
struct Affine {
  float scale;
  float shift;
  bool operator==(const Affine&) const = default;
};
constexpr auto kCompose = [](const Affine& first, const Affine& then) {
  return Affine{first.scale * then.scale, first.shift * then.scale + then.shift};
};
constexpr auto kOwnSum = commuting([](auto a, auto b) { return static_cast<decltype(a)>(a + b); });

/// An operator with inputs of which nearly every other order, and every other rounding, has other bits.
template <typename T, typename Op>
struct Combining {
  Op op;
  std::string name;

  static std::vector<T> values(int rank, std::size_t count) {
    Random random(static_cast<unsigned>(rank) + 1);
    std::vector<T> data(count);
    for (T& value : data) {
      if constexpr (std::same_as<T, Affine>) {
        value = {digits<float>(random), scattered<float>(random)};
      } else {
        value = std::same_as<Op, Prod> ? digits<T>(random) : scattered<T>(random);
      }
    }
    return data;
  }

  /// Of all ranks' values: from the left, ((0 1) 2) ..., or from the right, 0 (1 (2 ...)).
  std::vector<T> fold(int ranks, std::size_t count, bool from_left = true) {
    std::vector<T> folded = values(from_left ? 0 : ranks - 1, count);
    for (int step = 1; step < ranks; ++step) {
      const std::vector<T> next = values(from_left ? step : ranks - 1 - step, count);
      for (std::size_t i = 0; i < count; ++i) folded[i] = from_left ? op(folded[i], next[i]) : op(next[i], folded[i]);
    }
    if constexpr (std::same_as<Op, Avg>) {
      for (T& value : folded) value = static_cast<T>(value / static_cast<float>(ranks));
    }
    return folded;
  }
};

template <typename T, typename With>
void for_each_operator(const With& with) {
  with(Combining<T, Sum>{sum, "sum"});
  with(Combining<T, Prod>{prod, "prod"});
  with(Combining<T, Avg>{avg, "avg"});
  with(Combining<T, std::remove_const_t<decltype(kOwnSum)>>{kOwnSum, "a sum of one's own"});
}

template <typename With>
void for_each_combining(const With& with) {
  for_each_operator<float16>(with);
  for_each_operator<bfloat16>(with);
  for_each_operator<float>(with);
  for_each_operator<double>(with);
  with(Combining<Affine, std::remove_const_t<decltype(kCompose)>>{kCompose, "composition"});
}

/// How it is asked for.
struct Way {
  Options options;
  bool allocated = false;  ///< in buffers that the other ranks map

  Algorithm algorithm() const { return options.algorithm; }
};

/// By what is chosen and by every algorithm, with several chunks.
std::vector<Way> every_way(Transport transport) {
  std::vector<Way> ways;
  for (const std::size_t chunk : {0U, 64U, 4096U}) ways.push_back({{.chunk_bytes = chunk, .deterministic = true}});
  for (const Algorithm algorithm : every_algorithm_of(Collective::all_reduce, transport)) {
    for (const std::size_t chunk : {0U, 200U})
      ways.push_back({{.algorithm = algorithm, .chunk_bytes = chunk, .deterministic = true}});
  }
  if (transport == Transport::shm) ways.push_back({{.deterministic = true}, true});
  return ways;
}

/// Whether it can be asked for in rank order.
bool is_possible(Collective collective, const Way& way) {
  Question question;
  question.collective = collective;
  question.one_host = shares_memory(way.algorithm());
  question.deterministic = true;
  return way.algorithm() == Algorithm::automatic || is_valid(question, way.algorithm());
}

/// One operator's collectives of so many elements.
template <typename T, typename Op>
class Checked {
 public:
  Checked(Communicator& world, Combining<T, Op> combining, std::size_t count)
      : world_(world),
        combining_(std::move(combining)),
        input_(combining_.values(world.rank(), count)),
        wanted_(combining_.fold(world.size(), count)) {
    const bool tells = world.size() == 2 || count < 40 || wanted_ != combining_.fold(world.size(), count, false);
    require(tells, combining_.name + " has the same bits in another order");
  }

  void by(const Way& way, std::minstd_rand& delays) {
    const std::size_t count = input_.size();
    const auto size = static_cast<std::size_t>(world_.size());
    const std::string how = " of " + std::to_string(count) + " elements of " +
                            std::string(to_string(element_type_of<T>)) + ", " + combining_.name + ", by " +
                            std::string(to_string(way.algorithm())) + (way.allocated ? ", allocated" : "");
    std::vector<T> own(way.allocated ? 0 : count);
    SharedBuffer<T> shared;
    if (way.allocated) shared = allocate<T>(world_, count);
    const std::span<T> data = way.allocated ? shared.span() : std::span(own);
    const auto begin = [&] {
      std::copy(input_.begin(), input_.end(), data.begin());
      dawdle(delays);
    };

    if (is_possible(Collective::all_reduce, way)) {
      begin();
      all_reduce(world_, data, combining_.op, way.options);
      require(is_wanted(data, 0), "all_reduce" + how);
    }
    for (int root = 0; root < world_.size() && is_possible(Collective::reduce, way); ++root) {
      begin();
      reduce(world_, data, combining_.op, root, way.options);
      require(world_.rank() != root || is_wanted(data, 0), "reduce" + how);
    }
    if (is_possible(Collective::reduce_scatter, way)) {
      const std::size_t share = count / size;
      std::vector<T> block(share);
      begin();
      reduce_scatter(world_, std::span<const T>(data).first(share * size), std::span(block), combining_.op,
                     way.options);
      require(is_wanted(block, share * static_cast<std::size_t>(world_.rank())), "reduce_scatter" + how);
    }
  }

 private:
  bool is_wanted(std::span<const T> got, std::size_t from) const {
    return same_bits(got, std::span(wanted_).subspan(from, got.size()));
  }

  Communicator& world_;
  Combining<T, Op> combining_;
  const std::vector<T> input_;
  const std::vector<T> wanted_;
};

void check_everything(Communicator& world, const std::vector<Way>& ways) {
  std::minstd_rand delays(static_cast<unsigned>(world.rank()) + 1);
  for_each_combining([&]<typename T, typename Op>(const Combining<T, Op>& combining) {
    for (const std::size_t count : {1U, 7U, 40U, 5000U}) {
      Checked<T, Op> checked(world, combining, count);
      for (const Way& way : ways) checked.by(way, delays);
    }
  });
  Checked<float, Sum> many(world, {sum, "sum"}, kMany);
  for (const Way& way : ways) {
    if (way.options.chunk_bytes == 0) many.by(way, delays);
  }
}

}  // namespace

TEST_CASE("deterministic results are the same bits over every transport, for every count, chunk and algorithm",
          "[collectives][deterministic]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::unix_socket, Transport::tcp);
  if (SANITIZED && config.transport == Transport::tcp) return;  // to a sanitizer the same as the other sockets
  const int size = GENERATE(2, 3, 5);
  const std::vector<Way> ways = every_way(config.transport);
  run_ranks(
      size, [&](Communicator& world) { check_everything(world, ways); }, config);
}

TEST_CASE("deterministic results are the same bits on several hosts", "[collectives][deterministic]") {
  for (const Table& hosts : {Table{0, 0, 1, 1}, Table{0, 1, 0, 1, -1}}) {
    run_on_hosts(hosts, [](Communicator& comm) { check_everything(comm, {{{.deterministic = true}}}); });
  }
}

TEST_CASE("RONDO_DETERMINISTIC makes every call so", "[collectives][deterministic]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::unix_socket);
  config.deterministic = true;
  run_ranks(
      4, [](Communicator& world) { check_everything(world, {Way{}}); }, config);
}

TEST_CASE("each algorithm gives all ranks the same bits in every run, whatever the timing",
          "[collectives][deterministic]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::tcp);
  const auto body = [&config](Communicator& world) {
    std::minstd_rand delays(static_cast<unsigned>(world.rank()) + 1);
    const auto size = static_cast<std::size_t>(world.size());
    const std::vector<float> values = Combining<float, Sum>::values(world.rank(), std::max(kMany, kMany / 4 * size));
    const std::span<const float> inputs(values);
    const auto same_in_all = [&](int runs, const std::string& what, const std::function<void(std::span<float>)>& run,
                                 std::size_t count) {
      std::vector<float> first(count), next(count);
      for (int i = 0; i < runs; ++i) {
        dawdle(delays);
        run(i == 0 ? first : next);
        require(i == 0 || same_bits(next, first), "other bits in another run of " + what);
      }
      return first;
    };
    const auto check_runs = [&](std::size_t count, int runs, const Options& options) {
      const std::string what = std::to_string(count) + " elements by " + std::string(to_string(options.algorithm));
      const std::span<const float> input = inputs.first(count);
      const auto all_reduced = same_in_all(
          runs, "all_reduce of " + what, [&](std::span<float> out) { all_reduce(world, input, out, sum, options); },
          count);
      std::vector<float> of_all(count * size);
      all_gather(world, std::span<const float>(all_reduced), std::span(of_all));
      for (std::size_t begin = 0; begin != of_all.size(); begin += count) {
        require(same_bits(all_reduced, std::span(of_all).subspan(begin, count)),
                "other bits on another rank of " + what);
      }
    };
    for (const Algorithm algorithm : every_algorithm_of(Collective::all_reduce, config.transport)) {
      for (const std::size_t chunk : {0U, 1000U}) check_runs(3001, rounds(20), {algorithm, chunk});
      check_runs(kMany, rounds(8), {algorithm});
    }
    for (const std::size_t count : {std::size_t{3001}, kMany / 4}) {
      const std::span<const float> whole = inputs.first(count * size), block = inputs.first(count);
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
  run_ranks(GENERATE(2, 3, 5), body, config);
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
