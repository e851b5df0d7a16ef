#include "runtime/core_balance.hpp"

#include <sched.h>

#include <array>
#include <chrono>
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

/// Four ranks of which all wait on the first core; this is the last.
Arena on_one_core(int first) {
  constexpr std::size_t kStaging = 12 << 10;
  SharedMemory memory = SharedMemory::create(Arena::memory_bytes(kMembers, kStaging));
  for (int rank = 0; rank < kMembers; ++rank) {
    auto mapped = SharedMemory::map(Descriptor(::dup(memory.descriptor())), memory.size());
    Arena(std::move(mapped), rank, kMembers, kStaging).wait_on_core(first);
  }
  return {std::move(memory), kMembers - 1, kMembers, kStaging};
}

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
  const Arena arena = on_one_core(usable[0]);
  int moved = 0;
  for (int trial = 0; trial < 20; ++trial) {
    CoreBalance balance;
    const Time start{};
    move_to_core(usable[0]);
    balance.yielded(arena, start, microseconds(1));
    moved += ::sched_getcpu() != usable[0] ? 1 : 0;
    // Not again at once.
    move_to_core(usable[0]);
    balance.yielded(arena, start + CoreBalance::kBetweenLooks / 2, microseconds(1));
    moved -= ::sched_getcpu() != usable[0] ? 1 : 0;
  }
  CHECK(moved > 15);  // the system may have moved it at any time
}

TEST_CASE("the longer others compute, the longer a rank stays where it is", "[runtime][cores]") {
  const Cores usable = own_cores();
  if (usable.size() < 2 || usable.size() > kMembers) return;
  const Arena arena = on_one_core(usable[0]);
  CoreBalance balance;
  Time now{};
  for (int yield = 0; yield < 20; ++yield) balance.yielded(arena, now += milliseconds(4), milliseconds(3));
  const Time last = now;
  const auto moves_at = [&](Time then) {
    move_to_core(usable[0]);
    balance.yielded(arena, then, microseconds(1));
    return ::sched_getcpu() != usable[0];
  };
  int moved = 0;
  while (now < last + CoreBalance::kMostBetweenLooks - milliseconds(50)) moved += moves_at(now += milliseconds(50));
  CHECK(moved < 5);  // by the system
  // And then at shorter intervals again.
  moved = 0;
  for (int i = 0; i < 100; ++i) moved += moves_at(now += milliseconds(100));
  CHECK(moved > 80);
}
