#include "runtime/core_balance.hpp"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cores.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::detail;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

using Cores = std::vector<int>;
using Moves = std::vector<std::pair<std::size_t, int>>;

/// Who moves where.
Moves moves(const Cores& cores, const Cores& usable) {
  Moves all;
  for (std::size_t rank = 0; rank < cores.size(); ++rank) {
    if (const auto core = core_to_move_to(cores, rank, usable)) all.emplace_back(rank, *core);
  }
  return all;
}

constexpr int kMembers = 4;

/// Four ranks. What the last does is what the tests are about.
class Ranks {
 public:
  explicit Ranks(Cores cores) : memory_(SharedMemory::create(Arena::memory_bytes(kMembers, kStaging))) {
    for (int rank = 0; rank < kMembers; ++rank) {
      auto mapped = SharedMemory::map(Descriptor(::dup(memory_.descriptor())), memory_.size());
      arenas_.push_back(std::make_unique<Arena>(std::move(mapped), rank, kMembers, kStaging));
    }
    wait_on(cores);
  }
  void wait_on(const Cores& cores) {
    for (std::size_t rank = 0; rank < cores.size(); ++rank) arenas_[rank]->wait_on_core(cores[rank]);
  }
  const Arena& last() const { return *arenas_.back(); }

 private:
  static constexpr std::size_t kStaging = 12 << 10;
  SharedMemory memory_;
  std::vector<std::unique_ptr<Arena>> arenas_;
};

}  // namespace

TEST_CASE("ranks that are one too many on a core move to one with room", "[runtime][cores]") {
  CHECK(moves({3, 3, 3, 7}, {3, 7}) == Moves{{2, 7}});
  CHECK(moves({7, 3, 7, 7, 7, 3, 7, 7}, {3, 7}) == Moves{{6, 3}, {7, 3}});
  CHECK(moves({0, 0, 0}, {0, 1, 2}) == Moves{{1, 1}, {2, 2}});
  CHECK(moves({2, 2, 2, 2, 0, 1, 1}, {0, 1, 2}) == Moves{{3, 0}});
}

TEST_CASE("ranks that are spread as evenly as they can be stay", "[runtime][cores]") {
  CHECK(moves({0, 1, 1, 0}, {0, 1}).empty());
  CHECK(moves({0, 0, 1}, {0, 1}).empty());
  CHECK(moves({2, 0, 1, 2, 0}, {0, 1, 2}).empty());
}

TEST_CASE("nobody moves where there are cores to spare, or where it is not known who is where", "[runtime][cores]") {
  CHECK(moves({0, 0}, {0, 1, 2}).empty());
  CHECK(moves({0, 0, 0}, {0}).empty());
  CHECK(moves({0, 0, 0, -1}, {0, 1}).empty());
  CHECK(moves({0, 0, 0, 5}, {0, 1}).empty());
}

TEST_CASE("a rank looks once in a while, and moves", "[runtime][cores]") {
  const Cores usable = own_cores();
  if (usable.size() < 2 || usable.size() > kMembers) return;
  const Ranks ranks(Cores(kMembers, usable[0]));
  int moved = 0;
  for (int trial = 0; trial < 20; ++trial) {
    CoreBalance balance;
    const Time start{};
    move_to_core(usable[0]);
    balance.yielded(ranks.last(), start, microseconds(1));
    moved += ::sched_getcpu() != usable[0] ? 1 : 0;
    // Not again at once.
    move_to_core(usable[0]);
    balance.yielded(ranks.last(), start + CoreBalance::kBetweenLooks / 2, microseconds(1));
    moved -= ::sched_getcpu() != usable[0] ? 1 : 0;
  }
  CHECK(moved > 15);  // the system may have moved it at any time
}

TEST_CASE("the more often others are met that compute, the longer a rank stays where it is", "[runtime][cores]") {
  const Cores usable = own_cores();
  if (usable.size() < 2 || usable.size() > kMembers) return;
  const Cores uneven(kMembers, usable[0]);
  Ranks ranks(uneven);
  CoreBalance balance;
  Time now{};
  for (int yield = 0; yield < 20; ++yield) balance.yielded(ranks.last(), now += milliseconds(4), milliseconds(3));
  const auto moves_in = [&](int looks, Duration between) {
    int moved = 0;
    for (int look = 0; look < looks; ++look) {
      move_to_core(usable[0]);
      balance.yielded(ranks.last(), now += between, microseconds(1));
      moved += ::sched_getcpu() != usable[0] ? 1 : 0;
    }
    return moved;
  };
  // Some by the system, and one each second.
  CHECK(moves_in(60, milliseconds(50)) < 10);
  // Once they have been found spread evenly, sooner and sooner again.
  Cores even;
  for (std::size_t rank = 0; rank < kMembers; ++rank) even.push_back(usable[rank % usable.size()]);
  ranks.wait_on(even);
  moves_in(20, CoreBalance::kMostBetweenLooks);
  ranks.wait_on(uneven);
  CHECK(moves_in(20, CoreBalance::kBetweenLooks) > 15);
}
