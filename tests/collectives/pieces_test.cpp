#include "collectives/pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rondo/algorithm/dispatch.hpp>
#include <rondo/algorithms.hpp>
#include <rondo/tuning.hpp>

#include "tests/collectives/memory_network.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using rondo::detail::Pieces;
using rondo::test::MemoryNetwork;
using rondo::test::MemoryPort;
using rondo::test::Provenance;
using rondo::testing::require;

namespace {

using Elements = std::vector<Provenance>;

constexpr Collective kCollectives[] = {Collective::all_reduce,     Collective::reduce,    Collective::broadcast,
                                       Collective::scatter,        Collective::gather,    Collective::all_gather,
                                       Collective::reduce_scatter, Collective::all_to_all};

bool sends_output(const Plan& plan, int rank) { return plan.collective == Collective::broadcast && rank == plan.root; }

/// Elements that a rank gives, and gets.
std::size_t given_by(const Plan& plan, int rank) {
  const bool is_root = rank == plan.root;
  switch (plan.collective) {
    case Collective::broadcast:
    case Collective::scatter: return is_root ? plan.blocks.total() : 0;
    case Collective::gather:
    case Collective::all_gather: return plan.blocks.count(rank);
    default: return plan.blocks.total();
  }
}

std::size_t got_by(const Plan& plan, int rank) {
  const bool is_root = rank == plan.root;
  switch (plan.collective) {
    case Collective::broadcast: return is_root ? 0 : plan.blocks.total();
    case Collective::reduce:
    case Collective::gather: return is_root ? plan.blocks.total() : 0;
    case Collective::scatter:
    case Collective::reduce_scatter: return plan.blocks.count(rank);
    case Collective::all_to_all: return plan.recv_blocks.total();
    default: return plan.blocks.total();
  }
}

/// Of all ranks.
using Plans = std::vector<Plan>;

/// What they get of what they give.
std::vector<Elements> run(const Plans& plans, const std::vector<Elements>& given) {
  const int size = static_cast<int>(plans.size());
  MemoryNetwork network(size, false, 0);
  std::vector<MemoryPort> ports;
  std::vector<Task> tasks;
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    auto& memory = network.memory(rank);
    memory.output.resize(got_by(plans[r], rank));
    (sends_output(plans[r], rank) ? memory.output : memory.input) = given[r];
    ports.emplace_back(network, rank, 0);
  }
  for (std::size_t rank = 0; rank < ports.size(); ++rank) tasks.push_back(run_collective(ports[rank], plans[rank]));
  network.run(tasks);
  std::vector<Elements> got;
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    require(tasks[r].done(), "a rank does not end");
    tasks[r].result();
    got.push_back(sends_output(plans[r], rank) ? Elements() : network.memory(rank).output);
  }
  require(network.pending() == 0, "messages are left over");
  return got;
}

/// One rank's buffers, or one for both, and what has been done with them.
class Memory {
 public:
  Memory(const Plan& plan, int rank, bool in_place)
      : given_(sends_output(plan, rank) ? Buffer::output : Buffer::input),
        read_(given_by(plan, rank)),
        written_(got_by(plan, rank)) {
    // Of blocks that of the rank is its own.
    if (read_.size() < written_.size()) read_at_ = plan.blocks.begin(rank);
    if (written_.size() < read_.size()) write_at_ = plan.blocks.begin(rank);
    if (!in_place) write_at_ = read_at_ + read_.size();
    elements_.resize(std::max(read_at_ + read_.size(), write_at_ + written_.size()));
    for (std::size_t i = 0; i < read_.size(); ++i)
      elements_[read_at_ + i] = {static_cast<std::uint32_t>(i), std::string(1, static_cast<char>('a' + rank))};
  }

  Elements given() const { return part(read_at_, read_.size()); }
  Elements got() const { return part(write_at_, written_.size()); }

  Elements read(const std::vector<Range>& ranges) {
    Elements all;
    for (const Range& range : ranges) {
      if (range.count == 0) continue;
      use(range, given_, read_);
      const Elements some = part(read_at_ + range.begin, range.count);
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  void write(const std::vector<Range>& ranges, const Elements& all) {
    std::size_t done = 0;
    for (const Range& range : ranges) {
      if (range.count == 0) continue;
      use(range, Buffer::output, written_);
      require(done + range.count <= all.size(), "more is got than the piece has");
      for (std::size_t i = 0; i < range.count; ++i) elements_[write_at_ + range.begin + i] = all[done++];
    }
    require(done == all.size(), "not all of a piece is got");
  }

  void check_done() const {
    const auto all = [](const std::vector<bool>& used) {
      return std::find(used.begin(), used.end(), false) == used.end();
    };
    require(all(read_), "an element is not given");
    require(all(written_), "an element is not got");
  }

 private:
  Elements part(std::size_t begin, std::size_t count) const {
    const auto first = elements_.begin() + static_cast<std::ptrdiff_t>(begin);
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }
  static void use(const Range& range, Buffer buffer, std::vector<bool>& used) {
    require(range.buffer == buffer, "a range of another buffer");
    require(range.begin + range.count <= used.size(), "a range leaves its buffer");
    for (std::size_t i = range.begin; i < range.begin + range.count; ++i) {
      require(!used[i], "an element twice");
      used[i] = true;
    }
  }

  const Buffer given_;
  std::vector<bool> read_, written_;
  std::size_t read_at_ = 0, write_at_ = 0;
  Elements elements_;
};

/// Throws where the pieces are not what the whole is.
void check_pieces(const Plans& plans, std::size_t most, bool in_place) {
  std::size_t largest_block = 0;
  for (const Plan& plan : plans) largest_block = std::max(largest_block, plan.blocks.largest());
  std::vector<Pieces> pieces;
  std::vector<Memory> memories;
  std::vector<Elements> given;
  for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
    const Plan& plan = plans[static_cast<std::size_t>(rank)];
    pieces.emplace_back(plan, rank, most, largest_block);
    given.push_back(memories.emplace_back(plan, rank, in_place).given());
    require(pieces.back().count() == pieces.front().count(), "ranks differ in their number");
  }
  const std::vector<Elements> wanted = run(plans, given);
  const std::size_t limit = std::max(most, plans.size());
  std::vector<std::size_t> first_given, first_got;
  for (std::size_t index = 0; index < pieces.front().count(); ++index) {
    Plans parts;
    given.clear();
    std::size_t moved = 0;
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      parts.push_back(pieces[rank].plan(index));
      given.push_back(memories[rank].read(pieces[rank].given(index)));
      const std::size_t got = got_by(parts[rank], static_cast<int>(rank));
      require(given[rank].size() == given_by(parts[rank], static_cast<int>(rank)), "what is given is not the piece's");
      require(given[rank].size() <= limit && got <= limit, "too long");
      if (index == 0) {
        first_given.push_back(given[rank].size());
        first_got.push_back(got);
      }
      require(given[rank].size() <= first_given[rank] && got <= first_got[rank], "longer than the first");
      moved += given[rank].size();
    }
    require(moved > 0, "nothing in it");
    const std::vector<Elements> got = run(parts, given);
    for (std::size_t rank = 0; rank < plans.size(); ++rank) memories[rank].write(pieces[rank].got(index), got[rank]);
  }
  for (std::size_t rank = 0; rank < plans.size(); ++rank) {
    memories[rank].check_done();
    require(memories[rank].got() == wanted[rank], "a wrong result");
  }
}

/// What operators keep the order of, whatever the blocks are.
Algorithm algorithm_for(Collective collective) {
  const auto all = algorithms_of(collective);
  return *std::find_if(all.begin(), all.end(), [&](Algorithm one) { return is_valid(collective, one, false); });
}

Plans plans_for(Collective collective, int root, const Blocks& blocks) {
  const Plan plan{.collective = collective,
                  .algorithm = algorithm_for(collective),
                  .root = root,
                  .commutative = false,
                  .blocks = blocks,
                  .recv_blocks = blocks};
  return Plans(static_cast<std::size_t>(blocks.size()), plan);
}

void check_all(const Plans& plans, bool may_be_in_place) {
  for (const std::size_t most : {std::size_t{1}, std::size_t{5}, std::size_t{16}, std::size_t{1000}}) {
    for (const bool in_place : {false, true}) {
      if (in_place && !may_be_in_place) continue;
      const Plan& plan = plans.front();
      INFO(to_string(plan.collective) << " of " << plan.blocks.total() << ", ranks " << plans.size() << ", root "
                                      << plan.root << ", most " << most << (in_place ? ", in place" : ""));
      CHECK_NOTHROW(check_pieces(plans, most, in_place));
    }
  }
}

}  // namespace

TEST_CASE("pieces make up the whole, in place and not, and none is too long", "[collectives][pieces]") {
  for (const Collective collective : kCollectives) {
    for (const int size : {1, 2, 3, 4, 7}) {
      const auto ranks = static_cast<std::size_t>(size);
      const std::size_t unit = collective == Collective::all_to_all ? ranks : 1;  // all blocks are of one length
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, std::size_t{50}}) {
        for (const int root : {0, size - 1})
          check_all(plans_for(collective, root, Blocks::even(count * unit, size)), true);
      }
    }
  }
}

TEST_CASE("pieces of blocks by counts, of which some are zero", "[collectives][pieces]") {
  const std::vector<std::size_t> counts[] = {{0, 0, 0}, {0, 23, 0, 7, 1}, {3, 0, 0}, {0}, {11}, {1, 6, 0, 0, 12, 5, 0}};
  for (const Collective collective :
       {Collective::scatter, Collective::gather, Collective::all_gather, Collective::reduce_scatter}) {
    for (const auto& lengths : counts) {
      for (const int root : {0, static_cast<int>(lengths.size()) - 1})
        check_all(plans_for(collective, root, Blocks::of_counts(lengths)), true);
    }
  }
}

TEST_CASE("pieces of blocks of which each rank knows its own alone", "[collectives][pieces]") {
  for (const int size : {1, 2, 3, 4, 7}) {
    const auto between = [](int from, int to) { return static_cast<std::size_t>((from * 3 + to) % 4 * 5 * from); };
    Plans plans;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<std::size_t> sent, received;
      for (int other = 0; other < size; ++other) {
        sent.push_back(between(rank, other));
        received.push_back(between(other, rank));
      }
      plans.push_back(plans_for(Collective::all_to_all, 0, Blocks::of_counts(sent)).front());
      plans.back().recv_blocks = Blocks::of_counts(received);
    }
    check_all(plans, false);
  }
}
