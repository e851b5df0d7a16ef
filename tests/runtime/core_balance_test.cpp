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
const Cores kUneven{0, 0, 0, 0};
const Cores kEven{0, 1, 0, 1};

/// Four ranks on two cores. What the last does is what the tests are about.
class Ranks {
 public:
  Ranks() : memory_(SharedMemory::create(Arena::memory_bytes(kMembers, kStaging))) {
    for (int rank = 0; rank < kMembers; ++rank) {
      auto mapped = SharedMemory::map(Descriptor(::dup(memory_.descriptor())), memory_.size());
      arenas_.push_back(std::make_unique<Arena>(std::move(mapped), rank, kMembers, kStaging));
    }
    moved = 0;
  }
  void wait_on(const Cores& cores) {
    for (std::size_t rank = 0; rank < cores.size(); ++rank) arenas_[rank]->wait_on_core(cores[rank]);
  }
  void yield(Duration between, Duration took = microseconds(1)) {
    balance_.yielded(*arenas_.back(), now_ += between, took);
  }

  static inline int moved = 0;

 private:
  static constexpr std::size_t kStaging = 12 << 10;

  static void move(int core) { moved += core == 1 ? 1 : 0; }

  SharedMemory memory_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  CoreBalance balance_{kMembers, {0, 1}, &move};
  Time now_{};
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
  Ranks ranks;
  ranks.yield(milliseconds(1));
  CHECK(Ranks::moved == 0);  // nobody has waited yet
  ranks.wait_on(kUneven);
  ranks.yield(CoreBalance::kBetweenLooks / 2);
  CHECK(Ranks::moved == 0);
  ranks.yield(CoreBalance::kBetweenLooks / 2);
  CHECK(Ranks::moved == 1);
  ranks.wait_on(kEven);
  for (int look = 0; look < 10; ++look) ranks.yield(CoreBalance::kBetweenLooks);
  CHECK(Ranks::moved == 1);
}

TEST_CASE("the more often others are met that compute, the longer a rank stays where it is", "[runtime][cores]") {
  Ranks ranks;
  ranks.wait_on(kUneven);
  for (int time = 0; time < 20; ++time) ranks.yield(milliseconds(4), milliseconds(3));
  CHECK(Ranks::moved == 0);
  const auto moves_in = [&](Duration time) {
    Ranks::moved = 0;
    for (Duration passed{}; passed < time; passed += milliseconds(1)) ranks.yield(milliseconds(1));
    return Ranks::moved;
  };
  CHECK(moves_in(5 * CoreBalance::kMostBetweenLooks) == 5);
  // Once they have been found spread evenly, sooner and sooner again.
  ranks.wait_on(kEven);
  CHECK(moves_in(5 * CoreBalance::kMostBetweenLooks) == 0);
  ranks.wait_on(kUneven);
  CHECK(moves_in(milliseconds(20)) == 20);
}

TEST_CASE("a thread moves to a core that it may use, and may go on from there", "[runtime][cores]") {
  cpu_set_t before, after;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  int found_there = 0, tried = 0;
  for (int trial = 0; trial < 20; ++trial) {
    for (const int core : own_cores()) {
      ++tried;
      move_to_core(core);
      found_there += ::sched_getcpu() == core ? 1 : 0;
    }
  }
  CHECK(found_there > tried * 8 / 10);  // the system may have moved it on at once
  move_to_core(CPU_SETSIZE - 1);        // which it may not use
  CHECK(::sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}
