#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

namespace {

// Small limits, so that a few kilobytes cross all of them.
Config tight() {
  Config config;
  config.eager_limit = 256;
  config.unexpected_bytes = 16 << 10;
  return config;
}

std::vector<int> numbers(std::size_t count, int seed) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = seed + static_cast<int>(i);
  return values;
}

}  // namespace

TEST_CASE("a message longer than its buffer is an error of the receiver alone", "[runtime][p2p][errors]") {
  const std::size_t count = GENERATE(20, 5000);
  const auto outcomes = try_ranks(
      2,
      [&](Communicator& world) {
        std::vector<int> data(count);
        int after = 5;
        if (world.rank() == 0) {
          world.send(std::span(data), 1, Tag{3});
          world.send(std::span(&after, 1), 1, Tag{3});
          return;
        }
        try {
          world.recv(std::span(data).first(10), 0, Tag{3});
        } catch (const Error& error) {
          require(error.code() == Errc::truncated && error.peer() == 0, error.what());
          world.recv(std::span(&after, 1), 0, Tag{3});  // the next one is untouched
          throw;
        }
      },
      tight());
  CHECK_FALSE(outcomes[0].failed());
  CHECK(outcomes[1].code == Errc::truncated);
  CHECK(outcomes[1].error.find("wanted at most 40") != std::string::npos);
}

TEST_CASE("sender and receiver that name different types are told so", "[runtime][p2p][errors]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<float> sent(4);
    std::vector<int> wanted(4);
    if (world.rank() == 0) world.send(std::span(sent), 1);
    if (world.rank() == 1) world.recv(std::span(wanted), 0);
  });
  CHECK_FALSE(outcomes[0].failed());
  CHECK(outcomes[1].code == Errc::type_mismatch);
  CHECK(outcomes[1].error.find("got elements of type float, wanted int32") != std::string::npos);
}

TEST_CASE("the caller's mistakes are thrown at the call", "[runtime][p2p][errors]") {
  run_ranks(2, [](Communicator& world) {
    int value = 0;
    const auto code_of = [](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.code();
      }
      return Errc{255};
    };
    require(code_of([&] { world.send(std::span(&value, 1), 2); }) == Errc::invalid_argument, "rank 2 of 2");
    require(code_of([&] { world.send(std::span(&value, 1), -1); }) == Errc::invalid_argument, "rank -1");
    require(code_of([&] { world.recv(std::span(&value, 1), 7); }) == Errc::invalid_argument, "source 7");
    require(code_of([&] { world.send(std::span(&value, 1), 1, any_tag); }) == Errc::invalid_argument, "any_tag");
    require(code_of([&] { (void)world.isend(std::span(&value, 1), 2); }) == Errc::invalid_argument, "isend to 2");
    require(code_of([&] { (void)world.irecv(std::span(&value, 1), -7); }) == Errc::invalid_argument, "source -7");
    require(code_of([&] { (void)world.probe(2); }) == Errc::invalid_argument, "probe of 2");
    require(code_of([&] { (void)world.iprobe(2); }) == Errc::invalid_argument, "iprobe of 2");
    const std::span<const char> negative(reinterpret_cast<const char*>(&value), static_cast<std::size_t>(-3));
    require(code_of([&] { world.send(negative, 1); }) == Errc::invalid_argument, "send of -3");
    std::array<int, 3> both{};
    const auto first = std::span(both).first(2), last = std::span(both).last(2);
    require(code_of([&] { world.sendrecv(first, 1, last, 1); }) == Errc::invalid_argument, "overlap");
    Communicator inert;
    require(code_of([&] { inert.send(std::span(&value, 1), 0); }) == Errc::not_initialized, "inert");
    require(code_of([&] { (void)inert.rank(); }) == Errc::not_initialized, "inert rank");
    require(code_of([&] { (void)inert.dup(); }) == Errc::not_initialized, "inert dup");
    Communicator mine = world.dup();
    const Communicator moved = std::move(mine);
    // What is left of a communicator that moved on is defined. NOLINTNEXTLINE(bugprone-use-after-move)
    require(moved && code_of([&] { (void)mine.probe(); }) == Errc::not_initialized, "moved from");
  });
}

TEST_CASE("a Work that nobody waited for is waited for, or given up while an exception unwinds",
          "[runtime][p2p][errors]") {
  const std::size_t count = GENERATE(10, 100'000);
  run_ranks(
      2,
      [&](Communicator& world) {
        const auto sent = numbers(count, world.rank());
        std::vector<int> got(count);
        const int other = 1 - world.rank();
        {
          const Work receive = world.irecv(std::span(got), other, Tag{1});
          const Work send = world.isend(std::span(sent), other, Tag{1});
        }
        require(got == numbers(count, other), "the end of a Work did not wait");
        // Nobody sends this and nobody receives that: both are taken back.
        try {
          const Work receive = world.irecv(std::span(got), other, Tag{2});
          const Work send = world.isend(std::span(sent), other, Tag{3});
          throw std::runtime_error("on the way");
        } catch (const std::runtime_error& error) {
          require(std::string_view(error.what()) == "on the way", error.what());
        }
        // Eagerly sent messages had gone before they could be taken back.
        if (count == 10) world.recv(std::span(got), other, Tag{3});
        world.sendrecv(std::span(sent), other, std::span(got), other, Tag{4});
        require(got == numbers(count, other), "wrong data");
      },
      tight());
}

TEST_CASE("a collective that an exception gives up fails on all ranks", "[runtime][errors]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    int value = 1;
    if (world.rank() != 1) return barrier(world);
    try {
      const Work work = iall_reduce(world, std::span(&value, 1), sum);
      throw std::runtime_error("on the way");
    } catch (const std::runtime_error&) {
      barrier(world);
    }
  });
  for (const auto& outcome : outcomes) CHECK(outcome.failed());
}

TEST_CASE("two blocking sends of long messages to each other end at the deadline", "[runtime][p2p][errors]") {
  Config config = tight();
  config.timeout = 200ms;
  std::array<std::string, 2> texts;
  run_ranks(
      2,
      [&](Communicator& world) {
        std::vector<int> data(100'000);
        try {
          world.send(std::span(data), 1 - world.rank());
        } catch (const Error& error) {
          require(error.code() == Errc::timed_out, error.what());
          texts[static_cast<std::size_t>(world.rank())] = error.what();
        }
        // The communicator still works; and nobody leaves before the other's deadline.
        int here = 1, there = 0;
        world.sendrecv(std::span(&here, 1), 1 - world.rank(), std::span(&there, 1), 1 - world.rank(), Tag{1});
      },
      config);
  for (const std::string& text : texts) CHECK(text.find("both send first") != std::string::npos);
}

TEST_CASE("a receive from a rank that has left ends in an error", "[runtime][p2p][errors]") {
  const bool talked_before = GENERATE(true, false);
  const auto outcomes = try_ranks(2, [&](Communicator& world) {
    int value = 3;
    if (world.rank() == 1) {
      if (talked_before) world.send(std::span(&value, 1), 0);
      return;
    }
    if (talked_before) world.recv(std::span(&value, 1), 1);
    world.recv(std::span(&value, 1), 1);
  });
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK(outcomes[0].error.find("rank 1 has left") != std::string::npos);
  CHECK_FALSE(outcomes[1].failed());
}

TEST_CASE("a message that its sender took back and left is not waited for", "[runtime][p2p][errors]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<int> data(100'000);
    if (world.rank() == 1) {
      try {
        const Work offered = world.isend(std::span(data), 0);
        int value = 0;
        world.recv(std::span(&value, 1), 0);
        throw std::runtime_error("changed its mind");
      } catch (const std::runtime_error&) {
        return;
      }
    }
    while (!world.iprobe(1)) continue;
    int value = 0;
    world.send(std::span(&value, 1), 1);
    while (world.iprobe(1)) (void)world.iprobe(1, Tag{9});  // looks for news, and hears that it has left
    world.recv(std::span(data), 1);
  });
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("rank 1 has left"));
  CHECK_FALSE(outcomes[1].failed());
}

TEST_CASE("a rank that leaves by an exception ends the others at once", "[runtime][p2p][errors]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    int value = 0;
    if (world.rank() == 1) throw std::runtime_error("no more");
    world.recv(std::span(&value, 1), (world.rank() + 2) % 3);
  });
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK(outcomes[2].code == Errc::peer_failed);
  CHECK(outcomes[0].error.find("left by an exception") != std::string::npos);
}
