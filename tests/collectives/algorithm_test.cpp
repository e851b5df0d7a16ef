#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <rondo/algorithm/dispatch.hpp>
#include <rondo/tuning.hpp>

#include "tests/collectives/memory_network.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/rounds.hpp"

using namespace rondo;
using rondo::test::MemoryNetwork;
using rondo::test::MemoryPort;
using rondo::test::Provenance;
using rondo::testing::rounds;

namespace {

struct Case {
  Plan plan;
  int size = 1;
  bool in_place = false;
  std::uint64_t seed = 0;
};

std::string letter(int rank) { return std::string(1, static_cast<char>('a' + rank)); }

std::string all_letters(int size) {
  std::string letters;
  for (int rank = 0; rank < size; ++rank) letters += letter(rank);
  return letters;
}

std::vector<Provenance> numbered(std::size_t count, const std::string& ranks) {
  std::vector<Provenance> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = {static_cast<std::uint32_t>(i), ranks};
  return elements;
}

/// What rank `from` sends to rank `to` has this many elements, in all_to_all.
std::size_t exchanged(int from, int to, std::size_t unit, bool uneven) {
  return uneven ? unit * static_cast<std::size_t>((from * 3 + to) % 4) : unit;
}

bool is_rooted(Collective collective) {
  return collective == Collective::reduce || collective == Collective::broadcast || collective == Collective::scatter ||
         collective == Collective::gather;
}

/// The plan of one rank: all_to_all's blocks differ, everything else is the same everywhere.
Plan plan_of(const Case& c, int rank) {
  Plan plan = c.plan;
  if (plan.collective != Collective::all_to_all) return plan;
  const std::size_t unit = plan.blocks.largest();
  const bool uneven = !c.in_place && c.seed % 2 == 1 && plan.algorithm != Algorithm::linear;
  std::vector<std::size_t> sends;
  std::vector<std::size_t> receives;
  for (int other = 0; other < c.size; ++other) {
    sends.push_back(exchanged(rank, other, unit, uneven));
    receives.push_back(exchanged(other, rank, unit, uneven));
  }
  plan.blocks = Blocks::of_counts(sends);
  plan.recv_blocks = Blocks::of_counts(receives);
  return plan;
}

/// Gives a rank exactly the memory that the collective promises it, so that touching anything else is found out.
void fill(MemoryNetwork::Memory& memory, const Plan& plan, int rank, bool in_place) {
  const Blocks& blocks = plan.blocks;
  const bool is_root = rank == plan.root;
  const std::size_t share = blocks.count(rank);
  std::size_t in = blocks.total();
  std::size_t out = blocks.total();
  switch (plan.collective) {
    case Collective::reduce: out = is_root ? out : 0; break;
    case Collective::broadcast:
      memory.input = numbered(is_root ? in : 0, letter(rank));
      memory.input.resize(in);
      memory.output = memory.input;
      return;
    case Collective::scatter:
      in = is_root ? in : 0;
      out = share;
      if (in_place && !is_root) in = out;
      break;
    case Collective::gather:
      in = share;
      out = is_root ? out : 0;
      break;
    case Collective::all_gather: in = share; break;
    case Collective::reduce_scatter: out = share; break;
    case Collective::all_to_all: out = plan.recv_blocks.total(); break;
    default: break;
  }
  memory.input = numbered(in, letter(rank));
  memory.output.assign(out, {});
  const bool is_gathered =
      plan.collective == Collective::all_gather || (plan.collective == Collective::gather && is_root);
  if (in_place && is_gathered) {
    memory.input.assign(blocks.total(), {});
    for (std::size_t i = 0; i < share; ++i)
      memory.input[blocks.begin(rank) + i] = {static_cast<std::uint32_t>(i), letter(rank)};
  }
}

void append(std::vector<Provenance>& to, int from, std::size_t begin, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to.push_back({static_cast<std::uint32_t>(begin + i), letter(from)});
}

/// The result, worked out the obvious way. Empty where the collective leaves none.
std::vector<Provenance> expected(const Case& c, int rank) {
  const Plan plan = plan_of(c, rank);
  const Blocks& blocks = plan.blocks;
  const std::string sum = all_letters(c.size) + "!";
  std::vector<Provenance> result;
  switch (plan.collective) {
    case Collective::all_reduce: return numbered(blocks.total(), sum);
    case Collective::reduce: return rank == plan.root ? numbered(blocks.total(), sum) : result;
    case Collective::reduce_scatter:
      for (std::size_t i = 0; i < blocks.count(rank); ++i)
        result.push_back({static_cast<std::uint32_t>(blocks.begin(rank) + i), sum});
      return result;
    case Collective::broadcast: return numbered(blocks.total(), letter(plan.root));
    case Collective::scatter: append(result, plan.root, blocks.begin(rank), blocks.count(rank)); return result;
    case Collective::gather:
    case Collective::all_gather:
      if (plan.collective == Collective::gather && rank != plan.root) return result;
      for (int from = 0; from < c.size; ++from) append(result, from, 0, blocks.count(from));
      return result;
    case Collective::all_to_all:
      for (int from = 0; from < c.size; ++from) {
        const Plan theirs = plan_of(c, from);
        append(result, from, theirs.blocks.begin(rank), theirs.blocks.count(rank));
      }
      return result;
    default: return result;
  }
}

/// Where the result stands, with the letters sorted where the order is left to the algorithm.
std::vector<Provenance> actual(MemoryNetwork& network, const Case& c, int rank) {
  const Plan& plan = c.plan;
  auto& memory = network.memory(rank);
  std::vector<Provenance> result = c.in_place ? memory.input : memory.output;
  if (c.in_place && rank != plan.root &&
      (plan.collective == Collective::reduce || plan.collective == Collective::gather))
    result.clear();
  if (c.in_place && rank == plan.root && plan.collective == Collective::scatter) {
    const auto first = result.begin() + static_cast<std::ptrdiff_t>(plan.blocks.begin(rank));
    result = std::vector<Provenance>(first, first + static_cast<std::ptrdiff_t>(plan.blocks.count(rank)));
  }
  if (plan.commutative) {
    for (Provenance& element : result)
      std::sort(element.ranks.begin(), element.ranks.end(),
                [](char a, char b) { return (a == '!' ? '~' : a) < (b == '!' ? '~' : b); });
  }
  return result;
}

std::string describe(const Case& c) {
  const Plan& plan = c.plan;
  return std::string(to_string(plan.collective)) + " by " + std::string(to_string(plan.algorithm)) + ", ranks " +
         std::to_string(c.size) + ", total " + std::to_string(plan.blocks.total()) + ", root " +
         std::to_string(plan.root) + ", chunk " + std::to_string(plan.chunk) + ", lanes " + std::to_string(plan.lanes) +
         (plan.commutative ? "" : ", ordered") + (c.in_place ? ", in place" : "") + ", seed " + std::to_string(c.seed);
}

/// Runs one case and says what is wrong with it; empty: nothing.
std::string problem(const Case& c) {
  MemoryNetwork network(c.size, c.in_place, c.seed);
  std::vector<Plan> plans;
  std::vector<MemoryPort> ports;
  std::vector<std::vector<Provenance>> inputs;
  for (int rank = 0; rank < c.size; ++rank) {
    plans.push_back(plan_of(c, rank));
    ports.emplace_back(network, rank, 0);
    fill(network.memory(rank), plans.back(), rank, c.in_place);
    inputs.push_back(network.memory(rank).input);
  }
  std::vector<Task> tasks;
  for (std::size_t rank = 0; rank < ports.size(); ++rank) tasks.push_back(run_collective(ports[rank], plans[rank]));
  try {
    network.run(tasks);
    for (const Task& task : tasks) {
      if (task.done()) task.result();
    }
  } catch (const std::exception& e) {
    return describe(c) + ": " + e.what();
  }
  for (int rank = 0; rank < c.size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (!tasks[r].done()) return describe(c) + ": rank " + std::to_string(rank) + " does not end";
    if (c.plan.collective == Collective::barrier) continue;
    if (actual(network, c, rank) != expected(c, rank))
      return describe(c) + ": rank " + std::to_string(rank) + " has a wrong result";
    const bool keeps_input = c.in_place ? (c.plan.collective == Collective::reduce && rank != c.plan.root)
                                        : c.plan.collective != Collective::broadcast;
    if (keeps_input && network.memory(rank).input != inputs[r])
      return describe(c) + ": rank " + std::to_string(rank) + " has changed its input";
  }
  if (network.pending() != 0) return describe(c) + ": messages are left over";
  return {};
}

bool has_in_place(Collective collective) {
  return collective != Collective::reduce_scatter && collective != Collective::barrier;
}

constexpr Collective kCollectives[] = {Collective::all_reduce,     Collective::reduce,     Collective::broadcast,
                                       Collective::scatter,        Collective::gather,     Collective::all_gather,
                                       Collective::reduce_scatter, Collective::all_to_all, Collective::barrier};

}  // namespace

TEST_CASE("every algorithm is right in odd worlds, from every root, in place and not", "[collectives][algorithm]") {
  std::size_t cases = 0;
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : algorithms_of(collective)) {
      for (const int size : {1, 2, 3, 4, 5, 7, 8, 16}) {
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(size - 1), std::size_t{50}}) {
          for (int root = 0; root < (is_rooted(collective) ? size : 1); ++root) {
            for (const bool in_place : {false, true}) {
              for (const bool commutative : {true, false}) {
                if (in_place && !has_in_place(collective)) continue;
                if (!is_valid(collective, algorithm, commutative)) continue;
                Case c{.plan = {.collective = collective,
                                .algorithm = algorithm,
                                .root = root,
                                .commutative = commutative},
                       .size = size,
                       .in_place = in_place,
                       .seed = cases++};
                c.plan.chunk = c.seed % 3;
                c.plan.blocks = Blocks::even(count, size);
                const std::string wrong = problem(c);
                if (!wrong.empty()) FAIL_CHECK(wrong);
              }
            }
          }
        }
      }
    }
  }
  CHECK(cases > 2000);
}

TEST_CASE("a thousand elements go through many chunks", "[collectives][algorithm]") {
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : algorithms_of(collective)) {
      for (const int size : {2, 3, 7}) {
        Case c{.plan = {.collective = collective, .algorithm = algorithm, .root = size - 1, .chunk = 17, .lanes = 3},
               .size = size,
               .seed = static_cast<std::uint64_t>(size)};
        c.plan.blocks = Blocks::even(1000, size);
        const std::string wrong = problem(c);
        if (!wrong.empty()) FAIL_CHECK(wrong);
      }
    }
  }
}

TEST_CASE("results do not depend on the order of deliveries", "[collectives][algorithm][property]") {
  std::mt19937_64 random(2024);
  const auto below = [&random](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  for (std::uint64_t seed = 0; seed < rounds(std::uint64_t{6000}); ++seed) {
    Case c;
    c.seed = seed;
    c.size = 1 + static_cast<int>(below(9));
    c.plan.collective = kCollectives[below(std::size(kCollectives))];
    const auto algorithms = algorithms_of(c.plan.collective);
    c.plan.algorithm = algorithms[below(algorithms.size())];
    c.plan.commutative = !is_valid(c.plan.collective, c.plan.algorithm, false) || below(2) == 0;
    c.plan.root = is_rooted(c.plan.collective) ? static_cast<int>(below(static_cast<std::size_t>(c.size))) : 0;
    c.plan.chunk = below(5);
    c.plan.lanes = 1 + static_cast<int>(below(kMaxLanes));
    c.in_place = has_in_place(c.plan.collective) && below(2) == 0;
    std::vector<std::size_t> counts;
    for (int rank = 0; rank < c.size; ++rank) counts.push_back(below(2) == 0 ? below(12) : below(3));
    const bool is_vector_form = below(2) == 0;
    c.plan.blocks = is_vector_form ? Blocks::of_counts(counts) : Blocks::even(below(60), c.size);
    const std::string wrong = problem(c);
    if (!wrong.empty()) FAIL(wrong);
  }
}

TEST_CASE("when the network fails, every rank ends with the error", "[collectives][algorithm][failure]") {
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : algorithms_of(collective)) {
      for (std::size_t deliveries = 0; deliveries < 4; ++deliveries) {
        Plan plan{.collective = collective, .algorithm = algorithm, .chunk = 2, .lanes = 3};
        plan.blocks = Blocks::even(40, 5);
        plan.recv_blocks = plan.blocks;
        MemoryNetwork network(5, false, deliveries);
        network.fail_after(deliveries);
        std::vector<MemoryPort> ports;
        std::vector<Task> tasks;
        for (int rank = 0; rank < 5; ++rank) {
          ports.emplace_back(network, rank, 0);
          network.memory(rank).input = numbered(40, letter(rank));
          network.memory(rank).output = numbered(40, letter(rank));
        }
        for (MemoryPort& port : ports) tasks.push_back(run_collective(port, plan));
        network.run(tasks);
        std::size_t failed = 0;
        for (const Task& task : tasks) {
          REQUIRE(task.done());
          failed += task.error() ? 1 : 0;
        }
        CHECK(failed > 0);
      }
    }
  }
}

TEST_CASE("a pair of collective and algorithm that does not exist is refused", "[collectives][algorithm]") {
  MemoryNetwork network(2, false, 0);
  MemoryPort port(network, 0, 0);
  const Plan plan{.collective = Collective::barrier, .algorithm = Algorithm::ring};
  CHECK_THROWS_AS(run_collective(port, plan), std::invalid_argument);
}
