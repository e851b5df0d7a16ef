#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
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

TEST_CASE("a message above the eager limit waits for its receive, one at the limit does not", "[runtime][p2p]") {
  Config config;
  config.transport = GENERATE(Transport::shm, Transport::unix_socket);
  config.eager_limit = 100;
  CAPTURE(to_string(config.transport));
  run_ranks(
      2,
      [](Communicator& world) {
        std::vector<char> data(101), got(101);
        const int other = 1 - world.rank();
        Work at_limit = world.isend(std::span(data).first(100), other, Tag{1});
        Work above = world.isend(std::span(data), other, Tag{2});
        // Whoever is through has both messages of the other, and has been through with its own.
        barrier(world, {.algorithm = Algorithm::dissemination});
        require(at_limit.test(), "the message at the limit waits");
        require(!above.test(), "the message above the limit is gone");
        barrier(world);  // both have looked
        world.recv(std::span(got).first(100), other, Tag{1});
        world.recv(std::span(got), other, Tag{2});
        at_limit.wait();
        above.wait();
      },
      config);
}

TEST_CASE("a long message behind the one that is received stays with the system until its receive", "[runtime][p2p]") {
  Config config;
  config.transport = Transport::unix_socket;
  std::atomic<bool> sent{false};
  run_ranks(
      2,
      [&](Communicator& world) {
        std::vector<int> first = numbers(10'000, 1), second = numbers(10'000, 2);
        barrier(world);  // there is a connection
        if (world.rank() == 0) {
          world.send(std::span(first), 1, Tag{1});
          world.send(std::span(second), 1, Tag{2});
          sent = true;
          return;
        }
        while (!sent) std::this_thread::yield();
        std::vector<int> got(first.size());
        world.recv(std::span(got), 0, Tag{1});
        require(got == first, "the first message");
        require(!CommunicatorAccess::group(world, "test").has_unexpected(), "the second has been copied");
        world.recv(std::span(got), 0, Tag{2});
        require(got == second, "the second message");
      },
      config);
}

TEST_CASE("send and recv move any length, eager and rendezvous, expected or not", "[runtime][p2p]") {
  const bool receiver_first = GENERATE(true, false);
  CAPTURE(receiver_first);
  run_ranks(
      2,
      [&](Communicator& world) {
        for (const std::size_t count : {0, 1, 3, 63, 64, 65, 1000, 100'000, 1'000'000}) {
          const auto sent = numbers(count, 7);
          int token = 0;
          if (world.rank() == 0) {
            if (receiver_first) world.recv(std::span(&token, 1), 1, Tag{1});
            world.send(std::span(sent), 1, Tag{5});
          } else {
            std::vector<int> got(count);
            auto work = world.irecv(std::span(got), 0, Tag{5});
            if (receiver_first) world.send(std::span(&token, 1), 0, Tag{1});
            work.wait();
            require(got == sent, "wrong data for count " + std::to_string(count));
            require(work.status().source == 0 && work.status().tag == Tag{5} && work.status().count<int>() == count,
                    "wrong status");
          }
        }
      },
      tight());
}

TEST_CASE("messages with one tag do not overtake, also where short and long ones mix", "[runtime][p2p]") {
  run_ranks(
      2,
      [](Communicator& world) {
        constexpr int kMessages = 200;
        std::vector<std::vector<int>> data(kMessages);
        std::vector<Work> works;
        for (int i = 0; i < kMessages; ++i) {
          const std::size_t count = i % 3 == 0 ? 2000 : 5;
          auto& buffer = data[static_cast<std::size_t>(i)];
          if (world.rank() == 0) {
            buffer.assign(count, i);
            works.push_back(world.isend(std::span(buffer), 1));
          } else {
            buffer.assign(2000, -1);
            works.push_back(world.irecv(std::span(buffer), 0));
          }
        }
        wait_all(works);
        for (int i = 0; i < kMessages; ++i) require(data[static_cast<std::size_t>(i)][0] == i, "overtaken");
      },
      tight());
}

TEST_CASE("tags and sources choose among messages that are already there", "[runtime][p2p]") {
  run_ranks(3, [](Communicator& world) {
    if (world.rank() > 0) {
      for (std::uint32_t tag = 0; tag < 4; ++tag) {
        const int value = 10 * world.rank() + static_cast<int>(tag);
        world.send(std::span(&value, 1), 0, Tag{tag});
      }
      return;
    }
    int value = 0;
    for (const std::uint32_t tag : {3u, 0u, 2u, 1u}) {
      for (const int source : {2, 1}) {
        world.recv(std::span(&value, 1), source, Tag{tag});
        require(value == 10 * source + static_cast<int>(tag), "wrong message chosen");
      }
    }
  });
}

TEST_CASE("any_source and any_tag take each message once, in each sender's order", "[runtime][p2p]") {
  run_ranks(
      4,
      [](Communicator& world) {
        constexpr int kEach = 50;
        if (world.rank() > 0) {
          std::vector<int> data(300);
          for (int i = 0; i < kEach; ++i) {
            data[0] = i;
            const std::size_t count = i % 2 == 0 ? 300 : 1;
            world.send(std::span(data).first(count), 0, Tag{static_cast<std::uint32_t>(i)});
          }
          return;
        }
        std::vector<int> next(4);
        std::vector<int> data(300);
        for (int i = 0; i < 3 * kEach; ++i) {
          const Status status = world.recv(std::span(data), any_source, any_tag);
          int& expected = next[static_cast<std::size_t>(status.source)];
          require(data[0] == expected && status.tag.value == static_cast<std::uint32_t>(expected), "out of order");
          ++expected;
        }
      },
      tight());
}

TEST_CASE("a rank sends to itself", "[runtime][p2p]") {
  run_ranks(
      1,
      [](Communicator& world) {
        for (const std::size_t count : {0, 1, 10'000, 1'000'000}) {
          const auto sent = numbers(count, 1);
          std::vector<int> got(count);
          auto receive = world.irecv(std::span(got), 0, Tag{2});
          world.send(std::span(sent), 0, Tag{2});
          receive.wait();
          require(got == sent, "wrong data");
          world.sendrecv(std::span(sent), 0, std::span(got), 0);
        }
      },
      tight());
}

TEST_CASE("neighbours exchange long messages with sendrecv", "[runtime][p2p]") {
  run_ranks(3, [](Communicator& world) {
    const auto out = numbers(300'000, world.rank());
    std::vector<int> in(out.size());
    const int next = (world.rank() + 1) % 3;
    const int before = (world.rank() + 2) % 3;
    for (int i = 0; i < 5; ++i) world.sendrecv(std::span(out), next, std::span(in), before);
    require(in == numbers(300'000, before), "wrong data");
  });
}

TEST_CASE("probe tells what a receive would get", "[runtime][p2p]") {
  run_ranks(2, [](Communicator& world) {
    if (world.rank() == 0) {
      const auto data = numbers(123, 0);
      world.send(std::span(data), 1, Tag{9});
      return;
    }
    const Status status = world.probe(any_source, any_tag);
    require(status.source == 0 && status.tag == Tag{9} && status.count<int>() == 123, "wrong probe");
    require(world.iprobe(0, Tag{9}).has_value() && !world.iprobe(0, Tag{8}).has_value(), "wrong iprobe");
    std::vector<int> data(status.count<int>());
    world.recv(std::span(data), status.source, status.tag);
    require(data == numbers(123, 0), "wrong data");
  });
}

TEST_CASE("unexpected messages beyond the limit wait at the sender", "[runtime][p2p]") {
  run_ranks(
      2,
      [](Communicator& world) {
        constexpr int kMessages = 2000;  // 200 bytes each: far beyond 16 KiB
        std::vector<char> data(200);
        if (world.rank() == 0) {
          std::vector<Work> works;
          world.recv(std::span(data), 1);  // from now on they are connected
          for (int i = 0; i < kMessages; ++i) works.push_back(world.isend(std::span(data), 1, Tag{1}));
          const auto gone = std::count_if(works.begin(), works.end(), [](Work& work) { return work.test(); });
          // Its half of the limit keeps so many with what keeping each takes, an eighth of a KiB and more.
          require(gone > 0 && static_cast<std::size_t>(gone) * (data.size() + 128) <= (16 << 10) / 2,
                  std::to_string(gone) + " messages are gone");
          int last = 1;
          world.send(std::span(&last, 1), 1, Tag{2});
          wait_all(works);
          return;
        }
        world.send(std::span(data), 0);
        int last = 0;
        world.recv(std::span(&last, 1), 0, Tag{2});  // gets past all that nobody has received yet
        for (int i = 0; i < kMessages; ++i) world.recv(std::span(data), 0, Tag{1});
      },
      tight());
}

TEST_CASE("wait_any returns one that is complete, wait_for does not give up what it waits for", "[runtime][p2p]") {
  run_ranks(2, [](Communicator& world) {
    if (world.rank() == 1) {
      int go = 0;
      world.recv(std::span(&go, 1), 0, Tag{7});
      world.send(std::span(&go, 1), 0, Tag{1});
      world.recv(std::span(&go, 1), 0, Tag{7});
      world.send(std::span(&go, 1), 0, Tag{0});
      return;
    }
    std::array<int, 2> values{};
    std::array<Work, 2> works;
    for (std::uint32_t tag = 0; tag < 2; ++tag) works[tag] = world.irecv(std::span(&values[tag], 1), 1, Tag{tag});
    require(!works[0].wait_for(1ms) && !works[0].test(), "nothing was sent yet");
    int go = 42;
    world.send(std::span(&go, 1), 1, Tag{7});
    require(wait_any(works) == 1, "the second comes first");
    world.send(std::span(&go, 1), 1, Tag{7});
    require(wait_any(works) == 0 && wait_any(works) == 2, "then the first, then none");
    require(values[0] == 42 && values[1] == 42, "wrong data");
  });
}

TEST_CASE("threads of one rank talk at the same time", "[runtime][p2p][threads]") {
  run_ranks(
      2,
      [](Communicator& world) {
        constexpr unsigned kThreads = 4;
        std::atomic<int> wrong{0};
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < kThreads; ++t) {
          threads.emplace_back([&, t] {
            std::vector<int> data(t % 2 == 0 ? 10 : 3000);
            for (int i = 0; i < 200; ++i) {
              if (world.rank() == 0) {
                data.assign(data.size(), i);
                world.send(std::span(data), 1, Tag{t});
              } else {
                world.recv(std::span(data), 0, Tag{t});
                if (data.back() != i) ++wrong;
              }
            }
          });
        }
        for (auto& thread : threads) thread.join();
        require(wrong == 0, "messages of threads were mixed up");
      },
      tight());
}
