// Every collective of the product on thousands of made-up networks: the result is that of a reference, each input is
// counted exactly once (in rank order where the operator asks for it), and nothing is pending at the end.
//
// A failure names its seed; RONDO_TEST_SEED=N runs that one alone.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>
#include <rondo/tuning.hpp>

#include "collectives/prepared.hpp"
#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "runtime/world.hpp"
#include "tests/simulation/origin.hpp"
#include "tests/simulation/simulated_world.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/rounds.hpp"
#include "tests/support/seeds.hpp"

using namespace rondo;
using namespace rondo::testing;

namespace {

// What one seed does, on every rank alike.
struct Scenario {
  explicit Scenario(std::uint64_t seed_) : seed(seed_), random(seed_) {
    constexpr int kSizes[] = {1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 16};
    size = kSizes[random() % std::size(kSizes)];
    limits.eager_limit = pick({64, 1024, 65536});
    limits.unexpected_bytes = pick({4096, 65536, std::size_t{64} << 20});
    limits.link_bytes = pick({1, 2048, std::size_t{1} << 20});
    limits.slices_from = pick({0, std::size_t{256} << 10});
    const std::size_t hosts = pick({0, 0, 2, 3});
    const bool in_order = random() % 2 == 0;
    for (std::size_t rank = 0; hosts > 0 && rank < static_cast<std::size_t>(size); ++rank) {
      const std::size_t host = in_order ? rank * hosts / static_cast<std::size_t>(size) : random() % hosts;
      limits.hosts.push_back(random() % 8 == 0 ? -1 : static_cast<int>(host));
    }
  }
  std::size_t pick(std::initializer_list<std::size_t> of) { return of.begin()[random() % of.size()]; }

  const std::uint64_t seed;
  std::mt19937_64 random;
  int size;
  SimulatedWorld::Limits limits;
};

// One collective, the same on every rank of a communicator, with its buffers and its check.
struct Round {
  Collective collective = Collective::barrier;
  Options options;
  int root = 0;
  bool in_place = false;
  bool ordered = false;
  bool by_counts = false;
  bool averaged = false;            // numbers instead of origins: what comes after combining is seen, too
  std::vector<std::size_t> counts;  // per rank; all the same without by_counts
  std::vector<std::vector<Origin>> in, out;
  std::vector<std::vector<double>> numbers, means;
  std::vector<Work> works;

  std::size_t total() const { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }
  std::size_t offset(int rank) const { return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0}); }
  std::size_t count(int rank) const { return counts[static_cast<std::size_t>(rank)]; }
};

constexpr Collective kCollectives[] = {Collective::all_reduce,     Collective::reduce,     Collective::broadcast,
                                       Collective::scatter,        Collective::gather,     Collective::all_gather,
                                       Collective::reduce_scatter, Collective::all_to_all, Collective::barrier};

// The algorithms that such a communicator has for a collective: by messages, in two levels.
std::vector<Algorithm> algorithms_for(const Round& round, const Communicator& comm) {
  Question question = detail::question_for(round.collective, CommunicatorAccess::group(comm, ""));
  question.commutative = !round.ordered;
  question.by_counts = round.by_counts;
  std::vector<Algorithm> all(algorithms_of(round.collective).begin(), algorithms_of(round.collective).end());
  all.push_back(Algorithm::two_level);
  std::erase_if(all, [&](Algorithm algorithm) { return !is_valid(question, algorithm); });
  return all;
}

Round make_round(Scenario& scenario, const Communicator& comm) {
  const int size = comm.size();
  Round round;
  round.collective = kCollectives[scenario.random() % std::size(kCollectives)];
  round.root = static_cast<int>(scenario.random() % static_cast<unsigned>(size));
  round.in_place = scenario.random() % 2 == 0;
  round.ordered = scenario.random() % 3 == 0;
  round.by_counts = scenario.random() % 3 == 0;
  round.averaged = !round.ordered && scenario.random() % 4 == 0;
  const std::size_t each = scenario.pick({0, 1, 2, static_cast<std::size_t>(size) - 1, 17, 100});
  round.counts.assign(static_cast<std::size_t>(size), each);
  if (round.by_counts) {
    for (std::size_t& count : round.counts) count = scenario.pick({0, 1, 3, 40});
  }
  round.options.chunk_bytes = scenario.pick({0, sizeof(Origin), 5 * sizeof(Origin), 4096});
  const auto algorithms = algorithms_for(round, comm);
  const std::size_t asked = scenario.random() % (algorithms.size() + 1);
  if (asked < algorithms.size()) round.options.algorithm = algorithms[asked];
  round.in.resize(static_cast<std::size_t>(size));
  round.out.resize(static_cast<std::size_t>(size));
  round.numbers.resize(static_cast<std::size_t>(size));
  round.means.resize(static_cast<std::size_t>(size));
  round.works.resize(static_cast<std::size_t>(size));
  return round;
}

std::vector<Origin> vector_of(int rank, std::size_t count, std::size_t begin = 0) {
  std::vector<Origin> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = origin(rank, begin + i);
  return elements;
}

std::vector<double> numbers_of(int rank, std::size_t count) {
  std::vector<double> numbers(count);
  std::iota(numbers.begin(), numbers.end(), rank + 1);
  return numbers;
}

template <typename T, typename Op>
Work start_reducing(Round& round, Communicator& comm, std::vector<T>& in, std::vector<T>& out, Op op) {
  const int rank = comm.rank();
  if (round.collective == Collective::all_reduce) {
    if (round.in_place) return iall_reduce(comm, std::span(out = in), op, round.options);
    out.resize(in.size());
    return iall_reduce(comm, std::span(in), std::span(out), op, round.options);
  }
  if (round.collective == Collective::reduce) {
    if (round.in_place) return ireduce(comm, std::span(out = in), op, round.root, round.options);
    out.resize(rank == round.root ? in.size() : 0);
    return ireduce(comm, std::span(in), std::span(out), op, round.root, round.options);
  }
  out.resize(round.count(rank));
  if (round.by_counts) return ireduce_scatter(comm, std::span(in), std::span(out), round.counts, op, round.options);
  return ireduce_scatter(comm, std::span(in), std::span(out), op, round.options);
}

Work start(Round& round, Communicator& comm) {
  const int rank = comm.rank();
  auto& in = round.in[static_cast<std::size_t>(rank)];
  auto& out = round.out[static_cast<std::size_t>(rank)];
  const bool root = rank == round.root;
  switch (round.collective) {
    case Collective::broadcast:
      out = root ? vector_of(rank, round.total()) : std::vector<Origin>(round.total());
      return ibroadcast(comm, std::span(out), round.root, round.options);
    case Collective::scatter:
      in = root ? vector_of(rank, round.total()) : std::vector<Origin>();
      out.resize(round.count(rank));
      if (round.by_counts)
        return iscatter(comm, std::span(in), std::span(out), round.counts, round.root, round.options);
      return iscatter(comm, std::span(in), std::span(out), round.root, round.options);
    case Collective::gather:
      in = vector_of(rank, round.count(rank), round.offset(rank));
      out.resize(root ? round.total() : 0);
      if (round.by_counts) return igather(comm, std::span(in), std::span(out), round.counts, round.root, round.options);
      return igather(comm, std::span(in), std::span(out), round.root, round.options);
    case Collective::all_gather:
      in = vector_of(rank, round.count(rank), round.offset(rank));
      out.resize(round.total());
      if (round.by_counts) return iall_gather(comm, std::span(in), std::span(out), round.counts, round.options);
      if (!round.in_place) return iall_gather(comm, std::span(in), std::span(out), round.options);
      std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(round.offset(rank)));
      return iall_gather(comm, std::span(out), round.options);
    case Collective::all_to_all: {
      if (!round.by_counts) {
        in = vector_of(rank, round.total());
        out.resize(round.total());
        return iall_to_all(comm, std::span(in), std::span(out), round.options);
      }
      // Rank r sends counts[r] elements to everybody.
      const std::vector<std::size_t> send(round.counts.size(), round.count(rank));
      in = vector_of(rank, round.count(rank) * round.counts.size());
      out.resize(round.total());
      return iall_to_all(comm, std::span(in), std::span(out), send, round.counts, round.options);
    }
    case Collective::barrier: return ibarrier(comm, round.options);
    default:
      if (round.averaged) {
        auto& numbers = round.numbers[static_cast<std::size_t>(rank)] = numbers_of(rank, round.total());
        return start_reducing(round, comm, numbers, round.means[static_cast<std::size_t>(rank)], avg);
      }
      in = vector_of(rank, round.total());
      return round.ordered ? start_reducing(round, comm, in, out, RankOrder{})
                           : start_reducing(round, comm, in, out, AnyOrder{});
  }
}

void check_moved(const Origin& got, int from, std::size_t index) {
  const Origin wanted = origin(from, index);
  if (got.counted == wanted.counted && got.index == wanted.index) return;
  throw std::runtime_error("element " + std::to_string(index) + " is wrong");
}

void check_reduced(const Origin& got, int size, std::size_t index, bool ordered) {
  for (int rank = 0; rank < size; ++rank) {
    const int times = got.counted[static_cast<std::size_t>(rank)];
    if (times == 1) continue;
    throw std::runtime_error("input of rank " + std::to_string(rank) + " is counted " + std::to_string(times) +
                             " times");
  }
  require(got.index == static_cast<std::int32_t>(index), "elements of different places were combined");
  require(!ordered || (got.in_order && got.first == 0 && got.last == size - 1), "combined out of rank order");
}

void check_means(const std::vector<double>& means, std::size_t begin, int size) {
  for (std::size_t i = 0; i < means.size(); ++i) {
    const double wanted = static_cast<double>(begin + i) + (size + 1) / 2.0;
    if (std::abs(means[i] - wanted) < 1e-9 * wanted) continue;
    throw std::runtime_error("mean " + std::to_string(i) + " is wrong");
  }
}

void check(const Round& round, int rank, int size) {
  const auto& out = round.out[static_cast<std::size_t>(rank)];
  if (const auto& means = round.means[static_cast<std::size_t>(rank)]; !means.empty()) {
    if (round.collective == Collective::reduce && rank != round.root) return;
    return check_means(means, round.collective == Collective::reduce_scatter ? round.offset(rank) : 0, size);
  }
  switch (round.collective) {
    case Collective::reduce:
      if (rank != round.root) return;
      [[fallthrough]];
    case Collective::all_reduce:
      for (std::size_t i = 0; i < out.size(); ++i) check_reduced(out[i], size, i, round.ordered);
      return;
    case Collective::reduce_scatter:
      for (std::size_t i = 0; i < out.size(); ++i) check_reduced(out[i], size, round.offset(rank) + i, round.ordered);
      return;
    case Collective::broadcast:
      for (std::size_t i = 0; i < out.size(); ++i) check_moved(out[i], round.root, i);
      return;
    case Collective::scatter:
      for (std::size_t i = 0; i < out.size(); ++i) check_moved(out[i], round.root, round.offset(rank) + i);
      return;
    case Collective::gather:
    case Collective::all_gather:
    case Collective::all_to_all:
      for (int from = 0; from < size && !out.empty(); ++from) {
        for (std::size_t i = 0; i < round.count(from); ++i) {
          std::size_t index = round.offset(from) + i;
          if (round.collective == Collective::all_to_all) {
            index = round.by_counts ? static_cast<std::size_t>(rank) * round.count(from) + i : round.offset(rank) + i;
          }
          check_moved(out[round.offset(from) + i], from, index);
        }
      }
      return;
    default: return;
  }
}

struct Trace {
  std::uint64_t events;
  std::int64_t elapsed;
  friend bool operator==(const Trace&, const Trace&) = default;
};

// A communicator, with what its members do on it.
struct Group {
  std::uint64_t id = detail::kWorldId;
  std::vector<int> members;  // ranks of the world
  std::vector<Communicator> handles;
  std::vector<Round> rounds;
};

// The world, and up to three more that overlap with it and each other, their members in any order.
std::vector<Group> make_groups(Scenario& scenario, SimulatedWorld& world) {
  std::vector<int> everybody(static_cast<std::size_t>(scenario.size));
  std::iota(everybody.begin(), everybody.end(), 0);
  std::vector<Group> groups(1);
  groups[0].members = everybody;
  for (std::size_t i = scenario.pick({1, 1, 2, 3}); i > 0; --i) {
    groups[0].rounds.push_back(make_round(scenario, world.rank(0)));
  }
  for (std::size_t more = scenario.random() % 4; more > 0; --more) {
    Group& group = groups.emplace_back();
    group.id = 70 + more;
    group.members = everybody;
    std::shuffle(group.members.begin(), group.members.end(), scenario.random);
    group.members.resize(1 + scenario.random() % group.members.size());
    for (const int rank : group.members) group.handles.push_back(world.make(rank, group.id, group.members));
    group.rounds.push_back(make_round(scenario, group.handles[0]));
  }
  return groups;
}

void start_all(Group& group, int rank, SimulatedWorld& world) {
  const auto place = std::find(group.members.begin(), group.members.end(), rank);
  if (place == group.members.end()) return;
  const auto member = static_cast<std::size_t>(place - group.members.begin());
  Communicator& comm = group.handles.empty() ? world.rank(rank) : group.handles[member];
  for (Round& round : group.rounds) round.works[member] = start(round, comm);
}

void finish_all(Group& group, SimulatedWorld& world) {
  for (std::size_t member = 0; member < group.members.size(); ++member) {
    const std::string who = "rank " + std::to_string(member) + " of communicator " + std::to_string(group.id);
    for (Round& round : group.rounds) {
      require(round.works[member].test(), who + " is not done with " + std::string(to_string(round.collective)));
      round.works[member].wait();
      check(round, static_cast<int>(member), static_cast<int>(group.members.size()));
    }
    require(world.quiet(group.members[member], group.id), who + " has something pending");
  }
}

// Runs what the seed says and checks it. Some ranks start late, and what is in flight together starts in another order
// on each.
Trace run_seed(std::uint64_t seed) {
  Scenario scenario(seed);
  SimulatedWorld world(scenario.size, seed, scenario.limits);
  std::vector<Group> groups = make_groups(scenario, world);
  std::vector<std::size_t> by_group(groups.size());
  std::iota(by_group.begin(), by_group.end(), std::size_t{0});

  std::vector<int> order = groups[0].members;
  std::shuffle(order.begin(), order.end(), scenario.random);
  for (const int rank : order) {
    if (scenario.random() % 4 == 0) world.run();  // everybody before this one has done what it can
    std::shuffle(by_group.begin(), by_group.end(), scenario.random);
    for (const std::size_t index : by_group) start_all(groups[index], rank, world);
  }
  world.run();

  for (Group& group : groups) finish_all(group, world);
  for (int from = 0; from < scenario.size; ++from) {
    for (int to = 0; to < scenario.size; ++to) {
      if (world.credit_complete(from, to)) continue;
      throw std::runtime_error("rank " + std::to_string(from) + " has lost credit for rank " + std::to_string(to));
    }
  }
  return {world.events(), world.elapsed().count()};
}

}  // namespace

TEST_CASE("every collective is right on thousands of simulated networks", "[simulation][collectives]") {
  for_seeds(rounds(std::uint64_t{4000}), run_seed);
}

TEST_CASE("a seed replays exactly", "[simulation]") {
  for_seeds(50, [](std::uint64_t seed) { CHECK(run_seed(seed) == run_seed(seed)); });
}
