#include <array>
#include <chrono>
#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <rondo/all_reduce.hpp>
#include <rondo/barrier.hpp>
#include <rondo/communicator.hpp>
#include <rondo/error.hpp>

#include "runtime/access.hpp"
#include "runtime/engine.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/on_core.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;
using namespace std::chrono_literals;

namespace {

int sum_of_ranks(Communicator& comm, int value) {
  all_reduce(comm, std::span(&value, 1), sum);
  return value;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("subgroup has the given ranks in the given order, and an inert handle for the others", "[runtime][groups]") {
  run_ranks(5, [](Communicator& world) {
    Communicator group = world.subgroup({3, 0, 4});
    const std::array<int, 5> place = {1, -1, -1, 0, 2};
    const int mine = place[static_cast<std::size_t>(world.rank())];
    require(group.member() == (mine >= 0), "wrong members");
    if (!group) return;
    require(group.rank() == mine && group.size() == 3, "wrong rank or size");
    require(sum_of_ranks(group, world.rank()) == 7, "wrong sum");
  });
}

TEST_CASE("split makes a communicator per color, ordered by key, then by rank", "[runtime][groups]") {
  run_ranks(5, [](Communicator& world) {
    Communicator half = world.split(world.rank() % 2, -world.rank());
    require(half.size() == (world.rank() % 2 == 0 ? 3 : 2), "wrong size");
    const std::array<int, 5> place = {2, 1, 1, 0, 0};
    require(half.rank() == place[static_cast<std::size_t>(world.rank())], "wrong order");
    require(sum_of_ranks(half, world.rank()) == (world.rank() % 2 == 0 ? 6 : 4), "wrong sum");
    Communicator some = world.split(world.rank() == 1 ? -1 : 0);
    require(some.member() == (world.rank() != 1), "a negative color is no member");
    Communicator same = world.dup();
    require(same.rank() == world.rank() && same.size() == world.size(), "dup has the same ranks");
  });
}

TEST_CASE("the members of each communicator are spread over the cores that they share", "[runtime][groups]") {
  run_ranks(6, [](Communicator& world) {
    // Rank 5 may run on others.
    using Places = std::vector<int>;
    CommunicatorAccess::engine(world)->share_cores(
        {3, 7}, world.rank() < 5 ? Places{0, 1, 2, 3, 4, -1} : Places{-1, -1, -1, -1, -1, 0});
    const auto home_in = [](Communicator& communicator) {
      return CommunicatorAccess::group(communicator, "").home_core().value_or(-1);
    };
    Communicator all = world.dup();
    if (world.rank() < 5) require(home_in(all) == (world.rank() < 3 ? 3 : 7), "in all");
    Communicator half = world.split(world.rank() % 2);  // 0 2 4 and 1 3 5
    if (world.rank() < 5) require(home_in(half) == (world.rank() == 3 || world.rank() == 4 ? 7 : 3), "in a half");
    Communicator others = world.split(world.rank() == 3 ? 1 : 0);
    if (world.rank() == 3) require(home_in(others) == -1, "alone");
  });
}

TEST_CASE("who waits in a collective goes to its core, whatever carries that", "[runtime][groups]") {
  Config config;
  config.transport = GENERATE(Transport::tcp, Transport::shm);
  const OnCore together(0);
  run_ranks(
      2,
      [](Communicator& world) {
        static thread_local int went_to;
        static thread_local detail::Group* group;
        detail::Engine& engine = *CommunicatorAccess::engine(world);
        engine.share_cores({3, 7}, {0, 1});
        Communicator both = world.dup();
        went_to = -1;
        group = &CommunicatorAccess::group(both, "");
        const auto nowhere = [] { return -1; };
        // In shared memory a wait for others is long before it is an operation.
        const auto go = [](int core) {
          if (!group->one_host() || !group->oldest_operation()) went_to = core;
          return true;
        };
        engine.progress().habits() = detail::IdleHabits(engine.settings().idle, detail::HomeCore(nowhere, go));
        const auto until = std::chrono::steady_clock::now() + 10s;
        const int home = world.rank() == 0 ? 3 : 7;
        const auto said = [&] { return went_to == home ? 1 : std::chrono::steady_clock::now() < until ? 0 : 2; };
        while (sum_of_ranks(both, said()) < 2) continue;
        require(went_to == home, "went to " + std::to_string(went_to));
      },
      config);
}

TEST_CASE("groups that overlap and run at the same time do not cross messages", "[runtime][groups]") {
  run_ranks(4, [](Communicator& world) {
    Communicator low = world.subgroup({0, 1, 2});
    Communicator high = world.subgroup({3, 2, 1});
    Communicator copy = world.dup();
    for (int round = 0; round < 50; ++round) {
      std::array<std::vector<int>, 4> data;
      std::vector<Work> works;
      const std::array<Communicator*, 4> comms = {&world, &low, &high, &copy};
      // Each rank starts them in another order.
      for (int i = 0; i < 4; ++i) {
        const auto which = static_cast<std::size_t>((i + world.rank() + round) % 4);
        if (!*comms[which]) continue;
        data[which].assign(1000, 100 * static_cast<int>(which) + round);
        works.push_back(iall_reduce(*comms[which], std::span(data[which]), sum));
      }
      int out = 7, in = 0;
      copy.sendrecv(std::span(&out, 1), (world.rank() + 1) % 4, std::span(&in, 1), (world.rank() + 3) % 4);
      wait_all(works);
      for (std::size_t which = 0; which < 4; ++which) {
        if (!*comms[which]) continue;
        require(data[which][999] == comms[which]->size() * (100 * static_cast<int>(which) + round), "crossed");
      }
    }
  });
}

TEST_CASE("a communicator opens no descriptor", "[runtime][groups]") {
  run_ranks(3, [](Communicator& world) {
    // Everybody has met everybody, and the helper thread does not come later.
    for (int i = 0; i < 3; ++i) {
      int out = 1, in = 0;
      world.sendrecv(std::span(&out, 1), (world.rank() + i) % 3, std::span(&in, 1), (world.rank() + 3 - i) % 3);
    }
    barrier(world);
    // One rank counts, for all of this process; to count is to open one more.
    const std::size_t before = world.rank() == 0 ? open_descriptors() : 0;
    barrier(world);
    std::vector<Communicator> many;
    for (int i = 0; i < 20; ++i) many.push_back(world.dup());
    for (Communicator& comm : many) require(sum_of_ranks(comm, 1) == 3, "wrong sum");
    barrier(world);
    const std::size_t after = world.rank() == 0 ? open_descriptors() : 0;
    barrier(world);
    require(before == after, "descriptors: " + std::to_string(before) + " before, " + std::to_string(after) + " after");
  });
}

TEST_CASE("ranks that make different subgroups are told so", "[runtime][groups][errors]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    (void)(world.rank() == 1 ? world.subgroup({0, 2}) : world.subgroup({0, 1}));
  });
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.error);
    CHECK(outcome.code == Errc::collective_mismatch);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("subgroup(ranks 0, 1 of checksum "));
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("subgroup(ranks 0, 2 of checksum "));
  }
}

TEST_CASE("a subgroup of wrong ranks is refused at the call", "[runtime][groups][errors]") {
  run_ranks(2, [](Communicator& world) {
    for (const std::vector<int>& ranks : {std::vector{0, 2}, std::vector{-1}, std::vector{1, 1}}) {
      try {
        (void)world.subgroup(ranks);
        require(false, "accepted");
      } catch (const Error& error) {
        require(error.code() == Errc::invalid_argument, error.what());
      }
    }
  });
}

TEST_CASE("two threads in collectives on one communicator are told, on two they are not",
          "[runtime][threads][errors]") {
  run_ranks(2, [](Communicator& world) {
    Communicator other = world.dup();
    int value = 1;
    Work first = world.rank() == 0 ? iall_reduce(world, std::span(&value, 1), sum) : Work();
    if (world.rank() == 0) {
      Errc code{};
      std::thread([&] {
        try {
          barrier(world);
        } catch (const Error& error) {
          code = error.code();
        }
      }).join();
      require(code == Errc::concurrent_use, "the second thread was let in");
    }
    std::thread([&] { barrier(other); }).join();
    if (world.rank() == 1) first = iall_reduce(world, std::span(&value, 1), sum);
    first.wait();
    require(value == 2, "wrong sum");
  });
}

TEST_CASE("errors in a sub-communicator name what its ranks are in the world", "[runtime][groups]") {
  Config config;
  config.timeout = 100ms;
  std::array<std::string, 4> errors;
  std::latch both(2);  // nobody leaves before
  run_ranks(
      4,
      [&](Communicator& world) {
        Communicator pair = world.split(world.rank() / 2, -world.rank());
        Communicator other = pair.dup();
        if (world.rank() < 2) return;
        try {
          std::vector<int> longer(100'000);
          if (world.rank() == 3) other.isend(std::span(longer), 1).wait();
          if (world.rank() == 2) sum_of_ranks(pair, 0);
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(world.rank())] = error.what();
        }
        both.arrive_and_wait();
      },
      config);
  CHECK_THAT(errors[3],
             Catch::Matchers::StartsWith("rondo: rank 0 (rank 3 of the world): isend: 400000 bytes to rank 1 "
                                         "(rank 2 of the world) with tag 0: "));
  CHECK_THAT(errors[2],
             Catch::Matchers::StartsWith("rondo: rank 1 (rank 2 of the world): all_reduce #2: rank 1 (rank 2 "
                                         "of the world) gave up") &&
                 Catch::Matchers::ContainsSubstring("for rank 0 (rank 3 of the world)"));
}

TEST_CASE("a mistake that a missing launcher may be the cause of says how ranks are started", "[runtime][groups]") {
  const auto outcomes = try_ranks(1, [](Communicator& world) { (void)world.subgroup({0, 1}); });
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("wanted 0 to 0, in a world of 1; rondo-run -n N"));
}
