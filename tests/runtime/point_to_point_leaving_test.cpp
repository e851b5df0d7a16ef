#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

// Ranks that leave while others want something of them.

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

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

TEST_CASE("a message that was matched by a receive from any rank is not waited for when its sender leaves",
          "[runtime][p2p][errors]") {
  Config config;
  config.transport = Transport::tcp;
  config.timeout = 20s;
  std::atomic<bool> sent = false, left = false;
  Outcome heard;  // by rank 0
  const auto outcomes = try_ranks(
      3,
      [&](Communicator& world) {
        std::vector<int> data(100'000);
        int value = 0;
        if (world.rank() == 1) {
          world.recv(std::span(&value, 1), 0);
          // Rank 0 hears nothing of the offer before it asks for it.
          while (!sent) std::this_thread::yield();
          try {
            const Work offered = world.isend(std::span(data), 0);
            throw std::runtime_error("changed its mind");
          } catch (const std::runtime_error&) {
            world = Communicator();
          }
          left = true;
          return;
        }
        if (world.rank() == 2) return world.recv(std::span(&value, 1), 0), void();
        world.send(std::span(&value, 1), 1);
        sent = true;
        // The offer and the goodbye lie in the socket, one behind the other.
        while (!left) std::this_thread::yield();
        try {
          world.recv(std::span(data), any_source);
        } catch (const Error& error) {
          // Not thrown on: rank 2 could hear of that before it has its message.
          heard = {error.what(), error.code()};
          world.send(std::span(&value, 1), 2);
        }
      },
      config);
  INFO(outcomes[0].error << "; " << outcomes[1].error << "; " << outcomes[2].error);
  CHECK(heard.code == Errc::peer_failed);
  CHECK_THAT(heard.error, Catch::Matchers::ContainsSubstring("recv: from any rank with tag 0: rank 1 has left"));
  CHECK_FALSE(outcomes[0].failed());
  CHECK_FALSE(outcomes[1].failed());
  CHECK_FALSE(outcomes[2].failed());
}

TEST_CASE("who waits for a message from any rank hears when all others have left", "[runtime][p2p][errors]") {
  const std::string way = GENERATE(as<std::string>(), "recv", "probe", "wait", "wait_any");
  INFO(way);
  Config config;
  config.timeout = 20s;
  const auto outcomes = try_ranks(
      3,
      [&](Communicator& world) {
        int value = 0;
        if (world.rank() == 2) return world.send(std::span(&value, 1), 0);
        if (world.rank() == 1) return;
        require(world.recv(std::span(&value, 1), any_source).source == 2, "there was one message");
        if (way == "recv") return static_cast<void>(world.recv(std::span(&value, 1), any_source));
        if (way == "probe") return static_cast<void>(world.probe());
        std::array works{world.irecv(std::span(&value, 1), any_source)};
        way == "wait" ? works[0].wait() : static_cast<void>(wait_any(works));
      },
      config);
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("all other ranks have left"));
}

TEST_CASE("Works that fail are given up without a wait", "[runtime][p2p][errors]") {
  Config config;
  config.log_level = LogLevel::error;
  const auto outcomes = try_ranks(
      2,
      [](Communicator& world) {
        if (world.rank() == 1) return;
        std::array<int, 3> values{};
        const auto receive = [&](std::size_t i) { return world.irecv(std::span(&values.at(i), 1), 1); };
        { const Work unfinished = receive(0); }
        Work replaced = receive(1);
        replaced = Work();
        const Work other = receive(1);
        Work waited = receive(2);
        waited.wait();
      },
      config);
  CHECK(outcomes[0].code == Errc::peer_failed);
}

TEST_CASE("a rank that all others have left still receives what it sends itself", "[runtime][p2p]") {
  run_ranks(2, [](Communicator& world) {
    if (world.rank() == 1) return;
    int value = 0, given = 3;
    try {
      world.recv(std::span(&value, 1), 1);
    } catch (const Error&) {
      value = 1;
    }
    require(value == 1, "rank 1 sends nothing");
    Work sent = world.isend(std::span(&given, 1), 0);
    require(world.probe().source == 0, "it is its own");
    world.recv(std::span(&value, 1), any_source);
    require(value == 3, "another one came");
    sent = world.isend(std::span(&given, 1), 0);
    value = 0;
    world.recv(std::span(&value, 1), any_source);
    value = 0;
    world.sendrecv(std::span(&given, 1), 0, std::span(&value, 1), any_source);
    require(value == 3, "another one came");
    value = 0;
    Work received = world.irecv(std::span(&value, 1), any_source);
    require(!received.wait_for(1ms), "nothing has been sent yet");
    sent = world.isend(std::span(&given, 1), 0);
    received.wait();
    require(value == 3, "another one came");
  });
}

TEST_CASE("a rank that has left is missed while another is still being connected to", "[runtime][p2p][errors]") {
  Config config;
  config.timeout = 20s;
  std::atomic<bool> heard = false;
  std::array<Outcome, 3> outcomes;
  const auto ends = try_ranks(
      3,
      [&](Communicator& world) {
        int value = 0;
        if (world.rank() == 1) return;
        if (world.rank() == 2) {
          while (!heard) std::this_thread::yield();  // away from the library, and so from who connects
          return static_cast<void>(world.recv(std::span(&value, 1), 0));
        }
        Work sent = world.isend(std::span(&value, 1), 2);
        try {
          world.recv(std::span(&value, 1), 1);
        } catch (const Error& error) {
          outcomes[0] = {error.what(), error.code()};
        }
        heard = true;
        sent.wait();
      },
      config);
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("rank 1 has left"));
  for (const Outcome& end : ends) CHECK(end.error == "");
}

TEST_CASE("a Work that was waited for does not keep its rank from leaving", "[runtime][p2p][errors]") {
  Config config;
  config.timeout = 20s;
  std::atomic<bool> heard = false;
  const auto outcomes = try_ranks(
      2,
      [&](Communicator& world) {
        int value = 0;
        if (world.rank() == 0) {
          Work sent = world.isend(std::span(&value, 1), 1);
          Work received = world.irecv(std::span(&value, 1), 1);
          sent.wait();
          require(received.wait_for(60s), "rank 1 sends it");
          world = Communicator();
          while (!heard) std::this_thread::yield();
          return;
        }
        world.send(std::span(&value, 1), 0);
        world.recv(std::span(&value, 1), 0);
        const auto last = [&] { world.recv(std::span(&value, 1), 0); };
        try {
          last();
        } catch (...) {
          heard = true;
          throw;
        }
      },
      config);
  CHECK(outcomes[1].code == Errc::peer_failed);
  CHECK_FALSE(outcomes[0].failed());
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

TEST_CASE("an offer that comes while a rank leaves by an exception is not refused: its sender hears of that",
          "[runtime][p2p][errors]") {
  Config config;
  config.transport = Transport::unix_socket;
  config.timeout = 20s;
  std::atomic<bool> offered = false, left = false;
  struct Telling {
    std::atomic<bool>& over;
    ~Telling() { over = true; }
  };
  const auto outcomes = try_ranks(
      2,
      [&](Communicator& world) {
        std::vector<int> data(100'000);
        barrier(world);
        if (world.rank() == 1) {
          const Telling telling{left};
          const Communicator leaving = std::move(world);
          while (!offered) std::this_thread::yield();
          throw std::runtime_error("no more");
        }
        Work sent = world.isend(std::span(data), 1);
        offered = true;
        while (!left) std::this_thread::yield();
        sent.wait();
      },
      config);
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("left by an exception"));
}
