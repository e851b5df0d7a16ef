#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

// Ranks that have not talked to each other yet.

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

TEST_CASE("a rank is called by more others at once than it lets in before they say who they are",
          "[runtime][connecting]") {
  constexpr int kRanks = 12;
  Config config;
  config.transport = GENERATE(Transport::automatic, Transport::tcp);
  config.half_open_limit = 3;
  std::atomic<int> calling = 0;
  run_ranks(
      kRanks,
      [&](Communicator& world) {
        int value = world.rank();
        if (world.rank() != 0) {
          Work sent = world.isend(std::span(&value, 1), 0);
          ++calling;
          return sent.wait();
        }
        while (calling < kRanks - 1) std::this_thread::yield();
        int total = 0;
        for (int i = 1; i < kRanks; ++i) {
          world.recv(std::span(&value, 1), any_source);
          total += value;
        }
        require(total == kRanks * (kRanks - 1) / 2, "some did not come");
      },
      config);
}

TEST_CASE("who sleeps is woken again and again by a rank that it has no connection with", "[runtime][connecting]") {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 12;
  std::array<std::atomic<Clock::time_point>, kRounds> sent{};
  std::array<Clock::duration, kRounds> late{};
  run_ranks(3, [&](Communicator& world) {
    int value = 0;
    for (std::size_t round = 0; round < kRounds; ++round) {
      if (world.rank() == 1) {
        std::this_thread::sleep_for(50ms);  // late: the others sleep by then
        sent.at(round) = Clock::now();
      }
      broadcast(world, std::span(&value, 1), 1);
      if (world.rank() == 2) late.at(round) = Clock::now() - sent.at(round).load();
    }
  });
  // Of the first round the most is to make the memory that they share.
  std::sort(late.begin() + 1, late.end());
  CHECK(late.at(kRounds / 2) < 100ms);
}
