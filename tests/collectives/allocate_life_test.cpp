// The life of a buffer from `allocate`: made while collectives are under way, given up in the middle of one, refused.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/group.hpp"
#include "tests/collectives/harmonic.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/same_bits.hpp"

using namespace rondo;
using namespace rondo::testing;

TEST_CASE("a buffer that one rank has given up is ordinary to all", "[collectives][allocate]") {
  run_ranks(3, [](Communicator& world) {
    auto kept = rondo::allocate<float>(world, kBlock);
    auto given_up = rondo::allocate<float>(world, kBlock);
    if (world.rank() == 1) given_up = {};
    std::vector<float> own(kBlock);
    const auto data = world.rank() == 1 ? std::span(own) : given_up.span();
    const auto mine = harmonic(world.rank(), kBlock);
    std::copy(mine.begin(), mine.end(), data.begin());
    broadcast(world, data, 2);
    require(same_bits(data, harmonic(2, kBlock)), "broadcast");
    all_reduce(world, data, kept.span(), max);
    require(same_bits(kept.span(), harmonic(2, kBlock)), "all_reduce");
  });
}

TEST_CASE("collectives look for buffers that all ranks map no more when none is left", "[collectives][allocate]") {
  run_ranks(3, [](Communicator& world) {
    const detail::SharedRegions& regions = CommunicatorAccess::group(world, "look").everybody().commons.regions();
    const auto sum_up = [&](std::span<float> data) {
      std::ranges::copy(harmonic(world.rank(), kBlock), data.begin());
      all_reduce(world, data, max);
      require(same_bits(data, harmonic(0, kBlock)), "all_reduce");
      return regions.any();
    };
    std::vector<float> own(kBlock);
    require(!sum_up(own), "before the first");
    for (int turn = 0; turn < 2; ++turn) {
      auto first = rondo::allocate<float>(world, kBlock);
      auto second = rondo::allocate<float>(world, kBlock);
      require(sum_up(first.span()) && sum_up(own), "with two");
      first = {};
      if (world.rank() == 1) second = {};
      require(sum_up(own), "with one that one rank has given up");
      second = {};
      barrier(world);
      require(!sum_up(own), "with none");
    }
  });
}

TEST_CASE("a buffer given up in the middle of a collective is still there for it", "[collectives][allocate]") {
  Config config;
  config.timeout = std::chrono::seconds(5);
  const auto body = [](Communicator& world) {
    auto first = rondo::allocate<float>(world, kBlock);
    auto second = rondo::allocate<float>(world, kBlock);
    barrier(world);  // which makes the memory that the next one begins in
    std::byte gone{};
    if (world.rank() == 1) world.recv(std::span(&gone, 1), 0);
    const auto data = world.rank() == 0 ? first.span() : second.span();
    std::ranges::copy(harmonic(world.rank(), kBlock), data.begin());
    Work work = iall_reduce(world, data, max);
    if (world.rank() == 0) {
      second = {};  // where the other's data lie
      world.send(std::span(&gone, 1), 1);
    }
    work.wait();
    require(same_bits(data, harmonic(0, kBlock)), "all_reduce");
  };
  run_ranks(2, body, config);
}

TEST_CASE("collectives that are under way when a buffer is allocated are done without it on all ranks",
          "[collectives][allocate]") {
  Config config;
  config.timeout = std::chrono::seconds(5);
  std::atomic<bool> both_called = false;
  const auto body = [&both_called](Communicator& world) {
    const auto size = static_cast<std::size_t>(world.size());
    barrier(world);
    // One rank has called both, and allocates, when the others come and are done with the first at once.
    while (world.rank() != 0 && !both_called) std::this_thread::yield();
    const auto mine = harmonic(world.rank(), kBlock);
    std::vector<float> first(kBlock * size), second(kBlock * size);
    Work one = iall_gather(world, std::span(mine), std::span(first), {Algorithm::direct});
    Work two = iall_gather(world, std::span(mine), std::span(second), {Algorithm::direct});
    if (world.rank() == 0) {
      both_called = true;
    } else {
      one.wait();
    }
    const auto allocated = rondo::allocate<float>(world, kBlock);
    one.wait();
    two.wait();
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto begin = kBlock * static_cast<std::size_t>(rank);
      require(same_bits(std::span(first).subspan(begin, kBlock), harmonic(rank, kBlock)), "first");
      require(same_bits(std::span(second).subspan(begin, kBlock), harmonic(rank, kBlock)), "second");
    }
  };
  run_ranks(2, body, config);
}

TEST_CASE("a mapped buffer outlives its communicator, and others may be allocated after it",
          "[collectives][allocate]") {
  run_ranks(3, [](Communicator& world) {
    rondo::SharedBuffer<int> kept;
    {
      auto group = world.dup();
      for (int i = 0; i < 5; ++i) {
        auto buffer = rondo::allocate<int>(group, 10'000);
        buffer[9'999] = world.rank() + i;
        all_reduce(group, buffer.span(), sum);
        require(buffer[9'999] == 3 + 3 * i, "all_reduce");
        kept = std::move(buffer);
      }
    }
    all_reduce(world, kept.span(), sum);  // of another communicator: memory like any other
    require(kept[9'999] == 45, "the kept buffer");
  });
}

TEST_CASE("ranks that allocate different sizes all hear of both", "[collectives][allocate]") {
  const auto outcomes = try_ranks(
      3, [](Communicator& world) { const auto buffer = rondo::allocate<int>(world, world.rank() == 1 ? 7 : 8); });
  for (const auto& outcome : outcomes) {
    INFO(outcome.error);
    CHECK(outcome.code == Errc::collective_mismatch);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("called allocate(28 bytes)"));
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("called allocate(32 bytes)"));
  }
}

TEST_CASE("more elements than memory can hold are refused", "[collectives][allocate]") {
  run_ranks(1, [](Communicator& world) {
    // In bytes, 64 bits hold nothing of it.
    constexpr std::size_t kCount = std::size_t{1} << 61;
    try {
      const auto buffer = rondo::allocate<double>(world, kCount);
    } catch (const Error& error) {
      const std::string text = error.what();
      return require(text.find("allocate: got 2305843009213693952 elements of 8 bytes") != std::string::npos, text);
    }
    throw std::runtime_error("no error");
  });
}

TEST_CASE("where there is no memory, shared or not, allocate says so", "[collectives][allocate]") {
  constexpr std::size_t kBytes = std::size_t{1} << 45;
  const bool reversed = GENERATE(false, true);  // in a group whose ranks are not the world's
  const auto rank_name = [](std::size_t rank) { return "rank " + std::to_string(rank); };
  const auto outcomes = try_ranks(2, [reversed](Communicator& world) {
    Communicator group = world.split(0, reversed ? -world.rank() : 0);
    const auto buffer = rondo::allocate<std::byte>(group, kBytes);
  });
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CHECK(outcomes[rank].code == Errc::system);
    CHECK_THAT(outcomes[rank].error,
               Catch::Matchers::ContainsSubstring(
                   (reversed ? rank_name(1 - rank) + " (" + rank_name(rank) + " of the world)" : rank_name(rank)) +
                   ": allocate: there is no memory of 35184372088832 bytes; nor shared: "
                   "rank 0 could not make 70368744177664 bytes: more than this machine "
                   "has: Cannot allocate memory"));
  }
}
