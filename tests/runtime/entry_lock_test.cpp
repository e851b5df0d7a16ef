#include "runtime/entry_lock.hpp"

#include <atomic>
#include <barrier>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

using rondo::detail::EntryLock;

TEST_CASE("one thread at a time holds the lock, also when it is held for long", "[runtime][lock]") {
  constexpr int kThreads = 4, kEntries = 2000;
  EntryLock lock;
  int inside = 0, entries = 0;
  bool alone = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int entry = 0; entry < kEntries; ++entry) {
        const std::lock_guard held(lock);
        alone &= ++inside == 1;
        // Longer than the others look for it without sleeping.
        for (int yields = 0; entry % 500 == 0 && yields < 1000; ++yields) std::this_thread::yield();
        --inside;
        ++entries;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(alone);
  CHECK(entries == kThreads * kEntries);
}

TEST_CASE("of two threads that try at once one has the lock", "[runtime][lock]") {
  constexpr int kRounds = 20'000;
  EntryLock lock;
  std::barrier both(2);
  std::atomic<int> holders = 0, rounds_with_one = 0;
  const auto try_each_round = [&](bool counts) {
    for (int round = 0; round < kRounds; ++round) {
      both.arrive_and_wait();
      holders += lock.try_lock();
      both.arrive_and_wait();
      if (!counts) continue;
      rounds_with_one += holders.exchange(0) == 1;
      lock.unlock();
    }
  };
  std::thread other(try_each_round, false);
  try_each_round(true);
  other.join();
  CHECK(rounds_with_one == kRounds);
}

TEST_CASE("a lock that is held is not taken by trying", "[runtime][lock]") {
  EntryLock lock;
  REQUIRE(lock.try_lock());
  CHECK_FALSE(lock.try_lock());
  lock.unlock();
  CHECK(lock.try_lock());
}
