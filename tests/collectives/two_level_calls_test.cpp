// Collectives of ranks on several hosts: who does which part, what is in flight, what is refused, calls that differ,
// deadlines. What they give is in two_level_test.cpp.

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/group.hpp"
#include "tests/collectives/pretended_hosts.hpp"

using namespace rondo;
using namespace rondo::testing;

TEST_CASE("the ranks of a host do their part in shared memory", "[collectives][two_level]") {
  run_on_hosts({0, 1, 1, 0, 4}, [](Communicator& comm) {
    detail::Team& team = CommunicatorAccess::group(comm, "").hosts()->within();
    require(!team.commons.formed(), "before the first operation");
    barrier(comm, kTwoLevel);
    detail::Arena* const arena = team.commons.arena();
    require((arena != nullptr) == (comm.rank() != 4), "after it");
    for (int place = 0; arena && place < 2; ++place) require(arena->has_entered(place, 2), "two steps of a barrier");
  });
}

TEST_CASE("operations in two levels are in flight at once, and mix with others", "[collectives][two_level]") {
  run_on_hosts({0, 1, 0, 1, 1}, [](Communicator& comm) {
    std::vector<std::vector<int>> data;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) data.emplace_back(i % 2 == 0 ? 50 : 70'000, comm.rank() + 1);
    for (std::size_t i = 0; i < data.size(); ++i) {
      works.push_back(
          iall_reduce(comm, std::span(data[i]), sum, {i % 3 == 0 ? Algorithm::tree : Algorithm::two_level}));
    }
    std::vector<int> late(8, comm.rank());
    broadcast(comm, std::span(late), 4, kTwoLevel);
    require(late == std::vector<int>(8, 4), "the blocking one");
    wait_all(works);
    for (const auto& one : data) require(one == std::vector<int>(one.size(), 15), "one of those in flight");
  });
}

TEST_CASE("ranks of a host that cannot share memory do their part by messages", "[collectives][two_level]") {
  Config config;
  config.transport = Transport::unix_socket;
  run_on_hosts(
      {0, 0, 1, 1, 1},
      [](Communicator& comm) {
        for (const std::size_t count : {5, 80'003}) {
          std::vector<double> data(count, comm.rank());
          all_reduce(comm, std::span(data), avg, kTwoLevel);
          require(data == std::vector<double>(count, 2), "all_reduce");
        }
        barrier(comm, kTwoLevel);
      },
      config);
}

TEST_CASE("two levels are refused where there are none", "[collectives][two_level]") {
  const auto refusal = [](const Table& hosts, auto call) {
    std::vector<std::string> texts(hosts.size());
    run_on_hosts(hosts, [&](Communicator& comm) {
      try {
        call(comm);
      } catch (const Error& error) {
        if (error.code() == Errc::invalid_argument) texts[at(comm.rank())] = error.what();
      }
    });
    return texts[0];
  };
  const auto reduce_all = [](Communicator& comm) {
    int one = 1;
    all_reduce(comm, std::span(&one, 1), sum, kTwoLevel);
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refusal({0, 0}, reduce_all),
             ContainsSubstring("not on several hosts, or each on its own has no algorithm two_level, wanted"));
  CHECK_THAT(refusal({0, 1}, reduce_all), ContainsSubstring("two_level"));
  CHECK_THAT(refusal({-1, -1, -1}, reduce_all), ContainsSubstring("two_level"));
  CHECK(refusal({0, 1, 0}, reduce_all) == "");
  const auto collect_all = [](Communicator& comm) {
    std::vector<int> all(3);
    all_gather(comm, std::span(all), kTwoLevel);
  };
  CHECK_THAT(refusal({0, 1, 0}, collect_all),
             ContainsSubstring("whose hosts are not in rank order has no algorithm two_level"));
  const auto exchange = [](Communicator& comm) {
    std::vector<int> all(at(comm.size()));
    all_to_all(comm, std::span(all), kTwoLevel);
  };
  CHECK(refusal({0, 0, 1, 1}, exchange) == "");
  CHECK_THAT(refusal({0, 1, 0, 1}, exchange), ContainsSubstring("whose hosts are not in rank order"));
  CHECK_THAT(refusal({0, 0, 2}, exchange),
             ContainsSubstring("all_to_all among hosts that differ in how many ranks they have has no algorithm"));
  const auto in_order = [](Communicator& comm) {
    int one = 1;
    all_reduce(
        comm, std::span(&one, 1), [](int a, int) { return a; }, kTwoLevel);
  };
  CHECK_THAT(refusal({0, 1, 0}, in_order), ContainsSubstring("not in rank order"));
  CHECK(refusal({0, 0, 1}, in_order) == "");
  const auto left_to_right = [](Communicator& comm) {
    float one = 1;
    all_reduce(comm, std::span(&one, 1), sum, {.algorithm = Algorithm::two_level, .deterministic = true});
  };
  CHECK_THAT(
      refusal({0, 0, 1}, left_to_right),
      ContainsSubstring("all_reduce with Options::deterministic has no algorithm two_level, wanted linear, chain"));
}

TEST_CASE("calls in two levels that differ are named, on one host and between them", "[collectives][two_level]") {
  for (const int odd : {0, 1, 3}) {
    const auto outcomes = try_on_hosts({0, 0, 1, 1}, [odd](Communicator& comm) {
      std::vector<float> data(8);
      barrier(comm, kTwoLevel);
      all_reduce(comm, std::span(data).first(comm.rank() == odd ? 7 : 8), sum, kTwoLevel);
      barrier(comm, kTwoLevel);
    });
    for (const auto& outcome : outcomes) {
      INFO(outcome.error);
      CHECK(outcome.code == Errc::collective_mismatch);
      CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("rank " + std::to_string(odd) +
                                                                   " called all_reduce(float x 7, sum, two_level)"));
    }
  }
}

TEST_CASE("who does not come to a call in two levels is named at its deadline", "[collectives][two_level]") {
  struct Case {
    int absent, gives_up;
  };
  // Who gives up waits for the absent rank alone: on its host, or between the hosts.
  for (const Case& one : {Case{1, 0}, Case{3, 2}, Case{0, 2}}) {
    const auto outcomes = try_on_hosts({0, 0, 1, 1}, [one](Communicator& comm) {
      barrier(comm, kTwoLevel);
      std::vector<float> data(8);
      std::byte begun{}, never{};
      const bool between = one.absent == 0;
      if (comm.rank() == one.gives_up) {
        if (between) comm.recv(std::span(&begun, 1), 3);
        all_reduce(comm, std::span(data), sum,
                   {.algorithm = Algorithm::two_level, .timeout = std::chrono::milliseconds(200)});
      }
      if (between && comm.rank() == 3) {
        Work work = iall_reduce(comm, std::span(data), sum, kTwoLevel);
        comm.send(std::span(&begun, 1), one.gives_up);
        work.wait();
      }
      comm.recv(std::span(&never, 1), (comm.rank() + 1) % 4, Tag{1});
    });
    for (const auto& outcome : outcomes) {
      INFO(one.absent << " is absent: " << outcome.error);
      CHECK(outcome.code == Errc::timed_out);
      CHECK_THAT(outcome.error,
                 Catch::Matchers::ContainsSubstring("; rank " + std::to_string(one.absent) + " has not come to it"));
    }
  }
}
