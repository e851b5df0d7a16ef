#include "runtime/arena.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::detail;

namespace {

constexpr std::size_t kStaging = 12 << 10;

// The members of one arena, each with a mapping of its own.
std::vector<std::unique_ptr<Arena>> members(int count) {
  SharedMemory memory = SharedMemory::create(Arena::memory_bytes(count, kStaging));
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int rank = 0; rank < count; ++rank) {
    auto mapped = SharedMemory::map(Descriptor(::dup(memory.descriptor())), memory.size());
    arenas.push_back(std::make_unique<Arena>(std::move(mapped), rank, count, kStaging));
  }
  return arenas;
}

Call call(Collective collective) {
  Call made;
  made.collective = collective;
  return made;
}

}  // namespace

TEST_CASE("an arena takes of each member what the README says", "[runtime][arena]") {
  CHECK(Arena::memory_bytes(16, kStaging) == 16 * (8328 + kStaging));
}

TEST_CASE("a piece of staging never overlaps one that may still be read", "[runtime][arena]") {
  StagingRing ring(3000);
  std::mt19937 random(7);
  struct Held {
    std::size_t begin, end;
    std::uint64_t step;
  };
  std::vector<Held> held;
  for (std::uint64_t step = 1; step < 20'000; ++step) {
    const std::size_t bytes = step % 50 < 25 ? 1 + random() % ring.most() : 1 + random() % 100;
    const auto piece = ring.take(bytes, step, step % 3 == 0 ? ring.bytes() : 3 * bytes);
    REQUIRE(piece.offset + bytes <= 3000);
    REQUIRE((piece.after == 0 || piece.after + 1 < step));  // that of the step before is not waited for
    for (const Held& other : held) {
      const bool apart = piece.offset >= other.end || piece.offset + bytes <= other.begin;
      REQUIRE((apart || other.step <= piece.after));
    }
    std::erase_if(held, [&](const Held& other) { return other.step <= piece.after; });
    held.push_back({piece.offset, piece.offset + bytes, step});
  }
}

TEST_CASE("steps that are to go round in part of the staging do so, wherever it stands", "[runtime][arena]") {
  StagingRing ring(6400);
  constexpr std::size_t kBytes = 640;
  std::uint64_t step = 0;
  for (const std::size_t before : {std::size_t{0}, std::size_t{640}, std::size_t{1920}, ring.most()}) {
    if (before > 0) ring.take(before, ++step, ring.bytes());
    for (int i = 0; i < 10; ++i) ring.take(kBytes, ++step, 3 * kBytes);
    for (int i = 0; i < 6; ++i) {
      CHECK(ring.take(kBytes, ++step, 3 * kBytes).offset + kBytes <= 3 * kBytes);
    }
  }
  std::size_t furthest = 0;
  for (int i = 0; i < 10; ++i) furthest = std::max(furthest, ring.take(kBytes, ++step, ring.bytes()).offset);
  CHECK(furthest == ring.bytes() - kBytes);
}

TEST_CASE("who was last seen to wait on another core does not want this one", "[runtime][arena]") {
  const auto arenas = members(3);
  Arena& mine = *arenas[0];
  mine.wait_on_core(0);
  CHECK(mine.may_want_core(1));
  arenas[1]->wait_on_core(1);
  arenas[2]->wait_on_core(0);
  CHECK_FALSE(mine.may_want_core(1));
  CHECK(mine.may_want_core(2));
  mine.wait_on_core(1);
  CHECK(mine.may_want_core(1));
  CHECK_FALSE(mine.may_want_core(2));
}

TEST_CASE("what a member lays out is seen once it has entered", "[runtime][arena]") {
  const auto arenas = members(2);
  for (const std::size_t bytes : {std::size_t{8}, Arena::kInlineBytes, std::size_t{4000}}) {
    const auto mine = arenas[0]->next(bytes);
    const auto theirs = arenas[1]->next(bytes);
    CHECK(mine.in_slots == (bytes <= Arena::kInlineBytes));
    CHECK_FALSE(arenas[1]->has_entered(0, theirs.number));
    std::memset(arenas[0]->bytes(mine, 0), 42, bytes);
    arenas[0]->enter(mine, call(Collective::barrier));
    CHECK(arenas[1]->has_entered(0, theirs.number));
    CHECK(arenas[1]->bytes(theirs, 0)[bytes - 1] == std::byte{42});
    CHECK(arenas[1]->call(theirs, 0) == call(Collective::barrier));
    arenas[1]->enter(theirs, call(Collective::barrier));
    CHECK(arenas[1]->history(theirs, 0) == arenas[1]->history(theirs, 1));
  }
}

TEST_CASE("a share of a step's work is claimed once, by the member that is then waited for", "[runtime][arena]") {
  const auto arenas = members(3);
  for (int i = 0; i < 3 * Arena::kDepth; ++i) {
    Arena::Step step;
    for (const auto& arena : arenas) {
      step = arena->next(8);
      arena->enter(step, call(Collective::all_reduce));
    }
    CHECK(arenas[1]->worker(step, 2) == 2);
    REQUIRE(arenas[0]->claim(step, 2));
    CHECK_FALSE(arenas[2]->claim(step, 2));
    CHECK(arenas[1]->worker(step, 2) == 0);
    CHECK_FALSE(arenas[1]->has_finished(step, 2));
    arenas[0]->finish(step, 2);
    CHECK(arenas[1]->has_finished(step, 2));
    CHECK_FALSE(arenas[1]->claim(step, 2));
    CHECK_FALSE(arenas[1]->has_finished(step, 0));
    arenas[0]->finish(step, 0);  // its own: it need not claim it, if nobody else does
    CHECK(arenas[1]->has_finished(step, 0));
    CHECK(arenas[1]->worker(step, 0) == 0);
  }
}

TEST_CASE("members that claim shares at the same time do each of them once", "[runtime][arena]") {
  const int size = 3;
  const auto arenas = members(size);
  std::atomic<int> done = 0;
  std::atomic<int> wrong = 0;
  const auto wait_until = [](auto condition) {
    while (!condition()) std::this_thread::yield();
  };
  const auto work = [&](Arena& arena) {
    for (int round = 0; round < 2000; ++round) {
      const auto step = arena.next(size);
      for (int member = 0; member < size; ++member) wait_until([&] { return arena.may_enter(step, member); });
      arena.enter(step, call(Collective::all_reduce));
      for (int member = 0; member < size; ++member) wait_until([&] { return arena.has_entered(member, step.number); });
      for (int of = 0; of < size; ++of) {
        if (!arena.claim(step, of)) continue;
        ++done;
        arena.bytes(step, 0)[of] = static_cast<std::byte>(round);
        arena.finish(step, of);
      }
      for (int of = 0; of < size; ++of) {
        wait_until([&] { return arena.has_finished(step, of); });
        if (arena.bytes(step, 0)[of] != static_cast<std::byte>(round)) ++wrong;
      }
    }
  };
  std::vector<std::thread> threads;
  for (const auto& arena : arenas) threads.emplace_back([&] { work(*arena); });
  for (auto& thread : threads) thread.join();
  CHECK(done == 2000 * size);
  CHECK(wrong == 0);
}

TEST_CASE("a member cannot run ahead of one that still reads", "[runtime][arena]") {
  const auto arenas = members(2);
  for (int i = 0; i < Arena::kDepth; ++i) {
    const auto step = arenas[0]->next(8);
    REQUIRE(arenas[0]->may_enter(step, 1));
    arenas[0]->enter(step, call(Collective::broadcast));
  }
  const auto step = arenas[0]->next(8);
  CHECK_FALSE(arenas[0]->may_enter(step, 1));
  arenas[1]->enter(arenas[1]->next(8), call(Collective::broadcast));
  CHECK_FALSE(arenas[0]->may_enter(step, 1));  // it may be reading what was laid out in the first
  arenas[1]->enter(arenas[1]->next(8), call(Collective::broadcast));
  CHECK(arenas[0]->may_enter(step, 1));
}

TEST_CASE("a member may be as far ahead of another as there are slots, wherever that one is", "[runtime][arena]") {
  const auto arenas = members(2);
  auto next = arenas[0]->next(8);
  const auto run_ahead = [&] {
    int steps = 0;
    for (; arenas[0]->may_enter(next, 1); ++steps, next = arenas[0]->next(8)) {
      arenas[0]->enter(next, call(Collective::broadcast));
    }
    return steps;
  };
  const auto follow = [&](int steps) {
    for (int i = 0; i < steps; ++i) arenas[1]->enter(arenas[1]->next(8), call(Collective::broadcast));
  };
  CHECK(run_ahead() == Arena::kDepth);
  follow(1);
  for (const int steps : {1, 3, Arena::kDepth / 2, Arena::kDepth / 2 + 1, Arena::kDepth, 2, Arena::kDepth - 1}) {
    follow(steps);
    CHECK(run_ahead() == steps);
  }
}

TEST_CASE("calls that differed are told apart steps later", "[runtime][arena]") {
  const auto arenas = members(2);
  arenas[0]->enter(arenas[0]->next(8), call(Collective::broadcast));
  arenas[1]->enter(arenas[1]->next(8), call(Collective::reduce));
  const auto step = arenas[0]->next(8);
  arenas[0]->enter(step, call(Collective::barrier));
  arenas[1]->enter(arenas[1]->next(8), call(Collective::barrier));
  CHECK(arenas[0]->call(step, 0) == arenas[0]->call(step, 1));
  CHECK(arenas[0]->history(step, 0) != arenas[0]->history(step, 1));
}

TEST_CASE("that a member has given up is seen by all, and of no other", "[runtime][arena]") {
  const auto arenas = members(3);
  CHECK_FALSE(arenas[0]->has_given_up(1));
  arenas[1]->wait_on_core(2);
  arenas[1]->give_up();
  for (const auto& arena : arenas) {
    CHECK(arena->has_given_up(1));
    CHECK_FALSE(arena->has_given_up(2));
    CHECK(arena->core_of(1) == 2);
  }
}

TEST_CASE("a member that rests must be woken, by one", "[runtime][arena]") {
  const auto arenas = members(3);
  CHECK_FALSE(arenas[0]->must_wake(1));
  arenas[1]->rest(true);
  Resting::order();
  CHECK(arenas[0]->must_wake(1));
  CHECK_FALSE(arenas[2]->must_wake(1));
  arenas[1]->rest(true);
  arenas[1]->rest(false);
  CHECK_FALSE(arenas[0]->must_wake(1));
}
