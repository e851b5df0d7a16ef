#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

// Communicators that a rank destroys while others want something of it in them.

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

TEST_CASE("a message that nobody received in a communicator that was destroyed with work unfinished goes with it",
          "[runtime][p2p]") {
  run_ranks(2, [](Communicator& world) {
    int value = 0;
    const auto data = std::span(&value, 1);
    Communicator part = world.dup();
    if (world.rank() == 1) {
      for (const std::uint32_t tag : {4, 5, 6}) part.send(data, 0, Tag{tag});
      barrier(world);
      return;
    }
    Work unfinished = part.irecv(data, 1, Tag{9});
    part.recv(data, 1, Tag{6});
    part.recv(data, 1, Tag{4});  // its memory is kept for others, when that of 5 comes back
    part = Communicator();
    barrier(world);
    bool failed = false;
    try {
      unfinished.wait();
    } catch (const Error&) {
      failed = true;
    }
    require(failed, "the communicator is gone");
  });
}

TEST_CASE("a communicator that was destroyed with work unfinished keeps no shared memory", "[runtime][memory]") {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("memfd:rondo") != std::string::npos ? 1 : 0;
    return count;
  };
  const bool collective = GENERATE(false, true);
  INFO((collective ? "a collective" : "a message"));
  std::vector<std::size_t> mapped;
  run_ranks(2, [&](Communicator& world) {
    for (int round = 0; round < 10; ++round) {
      Communicator part = world.dup();
      barrier(part);  // shares memory
      int value = 0;
      Work unfinished;
      if (world.rank() == 0) {
        unfinished =
            collective ? iall_reduce(part, std::span(&value, 1), sum) : part.irecv(std::span(&value, 1), 1, Tag{9});
      }
      part = Communicator();
      try {
        unfinished.wait();
      } catch (const Error&) {
      }
      barrier(world);
      if (world.rank() == 0) mapped.push_back(mappings());
      barrier(world);
    }
  });
  CHECK(mapped.front() > 0);
  CHECK(mapped.back() == mapped.at(2));
}

TEST_CASE("a collective that waits for a rank which keeps another communicator than that fails on all",
          "[runtime][errors]") {
  Config config;
  config.timeout = 20s;
  std::array<Outcome, 2> heard;
  const auto outcomes = try_ranks(
      2,
      [&](Communicator& world) {
        Communicator part = world.dup();
        int value = 0;
        if (world.rank() == 1) {
          world = Communicator();
          return static_cast<void>(part.recv(std::span(&value, 1), 0));
        }
        try {
          barrier(world);
        } catch (const Error& error) {
          heard[0] = {error.what(), error.code()};
        }
        part.send(std::span(&value, 1), 1);
      },
      config);
  CHECK(heard[0].code == Errc::peer_failed);
  CHECK_THAT(heard[0].error, Catch::Matchers::ContainsSubstring("rank 1 has destroyed the communicator"));
  for (const Outcome& outcome : outcomes) CHECK(outcome.error == "");
}

namespace {

/// What each rank hears in the communicator of all that rank 1 has destroyed, or destroys.
std::array<Outcome, 3> hear_in_part(const Config& config,
                                    const std::function<void(Communicator& world, Communicator& part)>& body) {
  std::array<Outcome, 3> heard;
  const auto outcomes = try_ranks(
      3,
      [&](Communicator& world) {
        Communicator part = world.subgroup({0, 1, 2});
        try {
          body(world, part);
        } catch (const Error& error) {
          heard.at(static_cast<std::size_t>(world.rank())) = {error.what(), error.code()};
        }
        barrier(world);  // nobody leaves before
      },
      config);
  for (const Outcome& outcome : outcomes) CHECK(outcome.error.empty());
  return heard;
}

void check_destroyed(const std::array<Outcome, 3>& heard, std::size_t by, const std::string& in) {
  CHECK(heard.at(by).code == Errc::peer_failed);
  CHECK_THAT(heard.at(by).error, Catch::Matchers::StartsWith("rondo: rank " + std::to_string(by) + ": " + in +
                                                             ": rank 1 has destroyed the communicator"));
}

}  // namespace

TEST_CASE("a long message of a collective to a rank that has destroyed the communicator fails it on all",
          "[runtime][p2p][errors]") {
  Config config;
  config.transport = Transport::unix_socket;
  const auto heard = hear_in_part(config, [](Communicator& world, Communicator& part) {
    if (world.rank() == 1) return void(part = Communicator());
    std::vector<int> data(100'000);  // offered, not sent at once
    broadcast(part, std::span(data), 0, {Algorithm::chain, 1 << 20});
  });
  for (const std::size_t rank : {0, 2}) check_destroyed(heard, rank, "broadcast #1");
}

TEST_CASE("a collective that waits for a rank that has destroyed the communicator, or then does, fails on all",
          "[runtime][errors]") {
  Config config;
  config.timeout = 8s;
  config.transport = GENERATE(Transport::automatic, Transport::unix_socket);
  const bool asked_before = GENERATE(false, true);
  const auto heard = hear_in_part(config, [&](Communicator& world, Communicator& part) {
    int value = 0;
    all_reduce(part, std::span(&value, 1), sum);
    if (world.rank() == 1) {
      if (asked_before) world.recv(std::span(&value, 1), 0);
      part = Communicator();
      return;
    }
    Work waiting = iall_reduce(part, std::span(&value, 1), sum);
    if (asked_before && world.rank() == 0) {
      (void)waiting.wait_for(1500ms);  // the others are asked after a second
      world.send(std::span(&value, 1), 1);
    }
    waiting.wait();
  });
  for (const std::size_t rank : {0, 2}) check_destroyed(heard, rank, "all_reduce #2");
}

TEST_CASE("a rank that destroys the communicator in the middle of a collective fails it for who waits for it",
          "[runtime][errors]") {
  Config config;
  config.timeout = 8s;
  config.transport = Transport::unix_socket;
  const bool waited_itself = GENERATE(false, true);
  const auto heard = hear_in_part(config, [&](Communicator& world, Communicator& part) {
    int value = 0;
    const Options from_one_to_the_next{Algorithm::chain};
    if (world.rank() != 1) {
      if (world.rank() == 0 || waited_itself) world.recv(std::span(&value, 1), 1);
      return broadcast(part, std::span(&value, 1), 0, from_one_to_the_next), void();
    }
    Work half = ibroadcast(part, std::span(&value, 1), 0, from_one_to_the_next);
    if (waited_itself) {
      (void)half.wait_for(1500ms);  // after a second it says that it waits, and is not told any more who waits for it
      world.send(std::span(&value, 1), 2);
      (void)half.wait_for(1500ms);
    }
    part = Communicator();
    world.send(std::span(&value, 1), 0);
    half.wait();
  });
  CHECK(heard[1].code == Errc::not_initialized);
  check_destroyed(heard, 2, "broadcast #1");
}
