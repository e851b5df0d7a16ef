#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rondo/rondo.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/temporary_directory.hpp"

// Ranks that call different things: an error on every rank that names both calls; never a hang, never wrong data.

using namespace rondo;
using namespace rondo::testing;

namespace {

using Body = std::function<void(Communicator&)>;

/// Rank 1 of 3 does `odd`, the others `usual`; every rank must fail, and hear of both calls. A rank whose part was over
/// before the others differed hears of it in its next call.
void check_mismatch(const Body& usual, const Body& odd, const std::string& usual_name, const std::string& odd_name) {
  for (const Transport transport : {Transport::shm, Transport::unix_socket}) {
    Config config;
    config.transport = transport;
    config.timeout = std::chrono::seconds(20);
    const auto outcomes = try_ranks(
        3,
        [&](Communicator& world) {
          (world.rank() == 1 ? odd : usual)(world);
          barrier(world);
        },
        config);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      INFO("rank " << rank << " over " << to_string(transport) << ": " << outcomes[rank].error);
      CHECK(outcomes[rank].code == Errc::collective_mismatch);
      CHECK_THAT(outcomes[rank].error, Catch::Matchers::ContainsSubstring(usual_name));
      CHECK_THAT(outcomes[rank].error, Catch::Matchers::ContainsSubstring(odd_name));
    }
  }
}

template <typename T, typename Op>
Body reduces(std::size_t count, Op op, const Options& options = {}) {
  return [=](Communicator& world) {
    std::vector<T> data(count);
    all_reduce(world, std::span(data), op, options);
  };
}

Body broadcasts(int root) {
  return [=](Communicator& world) {
    std::vector<float> data(8);
    broadcast(world, std::span(data), root);
  };
}

}  // namespace

TEST_CASE("ranks in different collectives all hear of both", "[collectives][mismatch]") {
  check_mismatch(reduces<float>(8, sum), broadcasts(0), "all_reduce(float x 8", "broadcast(float x 8");
}

TEST_CASE("ranks with different counts all hear of both", "[collectives][mismatch]") {
  check_mismatch(reduces<float>(8, sum), reduces<float>(9, sum), "float x 8", "float x 9");
}

TEST_CASE("a rank that has nothing where others have something is an error on all", "[collectives][mismatch]") {
  const auto broadcasts_of = [](std::size_t count) {
    return [=](Communicator& world) {
      std::vector<float> data(count);
      broadcast(world, std::span(data), 0);
    };
  };
  check_mismatch(reduces<float>(8, sum), reduces<float>(0, sum), "float x 8", "float x 0");
  check_mismatch(broadcasts_of(0), broadcasts_of(8), "float x 0", "float x 8");
  // The others may be done with theirs.
  Config config;
  config.transport = Transport::unix_socket;
  const auto outcomes = try_ranks(
      3,
      [&](Communicator& world) {
        broadcasts_of(world.rank() == 1 ? 0 : 8)(world);
        barrier(world);
      },
      config);
  INFO(outcomes[1].error);
  CHECK(outcomes[1].code == Errc::collective_mismatch);
  CHECK_THAT(outcomes[1].error, Catch::Matchers::ContainsSubstring("float x 0"));
  CHECK_THAT(outcomes[1].error, Catch::Matchers::ContainsSubstring("float x 8"));
}

TEST_CASE(
    "all_to_all by counts of which two ranks have different ones is an error of both, nothing is lost or waited for",
    "[collectives][mismatch]") {
  for (const Transport transport : {Transport::shm, Transport::unix_socket}) {
    // Of what rank 0 has for rank 1.
    for (const auto& [sent, asked] : {std::pair{10U, 0U}, {0U, 10U}, {10U, 20U}}) {
      Config config;
      config.transport = transport;
      config.timeout = std::chrono::seconds(10);
      const auto outcomes = try_ranks(
          3,
          [sent = sent, asked = asked](Communicator& world) {
            std::vector<std::size_t> send_counts(3, 10), recv_counts(3, 10);
            if (world.rank() == 0) send_counts[1] = sent;
            if (world.rank() == 1) recv_counts[0] = asked;
            const std::vector<int> in(20 + send_counts[1]);
            std::vector<int> out(20 + recv_counts[0]);
            all_to_all(world, std::span(in), std::span(out), send_counts, recv_counts);
            barrier(world);
          },
          config);
      INFO(to_string(transport) << ": " << outcomes[1].error);
      for (const Outcome& outcome : outcomes) CHECK(outcome.code == Errc::collective_mismatch);
      CHECK_THAT(outcomes[1].error,
                 Catch::Matchers::ContainsSubstring(asked == 0 ? "rank 0 sent more in all_to_all(" : "rank 0 sent") &&
                     Catch::Matchers::ContainsSubstring(asked == 0 ? "than rank 1 asked for" : "bytes where"));
    }
  }
}

TEST_CASE("ranks with different element types all hear of both", "[collectives][mismatch]") {
  check_mismatch(reduces<float>(8, sum), reduces<std::int32_t>(8, sum), "float x 8", "int32 x 8");
}

TEST_CASE("ranks with different operators all hear of both", "[collectives][mismatch]") {
  check_mismatch(reduces<float>(8, sum), reduces<float>(8, max), "sum", "max");
}

TEST_CASE("ranks with different callables all hear of both", "[collectives][mismatch]") {
  const auto left = [](float a, float) { return a; };
  const auto right = [](float, float b) { return b; };
  check_mismatch(reduces<float>(8, left), reduces<float>(8, right), "custom", "an operator of checksum ");
}

TEST_CASE("ranks with different roots all hear of both", "[collectives][mismatch]") {
  check_mismatch(broadcasts(0), broadcasts(2), "root 0", "root 2");
}

TEST_CASE("ranks with different algorithms all hear of both", "[collectives][mismatch]") {
  check_mismatch(reduces<float>(8, sum, {Algorithm::ring}), reduces<float>(8, sum, {Algorithm::tree}), "ring", "tree");
}

TEST_CASE("ranks with different chunks all hear of both", "[collectives][mismatch]") {
  check_mismatch(reduces<float>(8, sum, {Algorithm::ring, 1024}), reduces<float>(8, sum, {Algorithm::ring, 2048}),
                 "chunk 1024", "chunk 2048");
}

TEST_CASE("ranks choose by the rules in their file", "[collectives][mismatch][tuning]") {
  const TemporaryDirectory directory;
  std::ofstream(directory / "rules") << "all_reduce 1K 3 any any chain 2K\n";
  Config config;
  config.tuning_file = directory / "rules";
  run_ranks(3, reduces<float>(8, sum), config);
  // Who asks for something else hears what the others had been told.
  const auto outcomes = try_ranks(
      3,
      [](Communicator& world) {
        reduces<float>(8, sum, {world.rank() == 1 ? Algorithm::tree : Algorithm::automatic})(world);
        barrier(world);
      },
      config);
  for (const Outcome& outcome : outcomes) {
    CHECK(outcome.code == Errc::collective_mismatch);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("all_reduce(float x 8, sum, chain, chunk 2048)"));
  }
}

TEST_CASE("ranks with different rules all hear of both when they meet", "[collectives][mismatch][tuning]") {
  const TemporaryDirectory directory;
  std::ofstream(directory / "rules") << "all_reduce 1K 3 any any chain 2K\n";
  std::vector<Config> configs(3);
  configs[2].tuning_file = directory / "rules";
  for (const Outcome& outcome : try_ranks(configs, reduces<float>(8, sum))) {
    CHECK(outcome.code == Errc::bad_configuration);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("RONDO_TUNING_FILE differs between ranks: rank 0 has "
                                                                 "no rules, rank 2 has 1 rule of checksum "));
  }
}

TEST_CASE("ranks with different counts per rank all hear of it", "[collectives][mismatch]") {
  const auto gathers = [](const std::vector<std::size_t>& counts) -> Body {
    return [counts](Communicator& world) {
      std::vector<int> in(counts[static_cast<std::size_t>(world.rank())]);
      std::vector<int> out(6);
      all_gather(world, std::span(in), std::span(out), counts);
    };
  };
  check_mismatch(gathers({1, 2, 3}), gathers({2, 2, 2}), "int32 x 6", "counts per rank of checksum ");
}

TEST_CASE("ranks that call in another order all hear of both", "[collectives][mismatch]") {
  const Body sum_then_barrier = [](Communicator& world) {
    reduces<float>(8, sum)(world);
    barrier(world);
  };
  const Body barrier_then_sum = [](Communicator& world) {
    barrier(world);
    reduces<float>(8, sum)(world);
  };
  check_mismatch(sum_then_barrier, barrier_then_sum, "all_reduce", "barrier");
}

TEST_CASE("ranks that are in the same call again hear of the calls before in which they differed",
          "[collectives][mismatch]") {
  std::latch over(2);  // the calls that differ
  const auto gathers = [&](Communicator& world, auto element) {
    std::vector<decltype(element)> own(8), all(world.rank() == 2 ? 24 : 0);
    gather(world, std::span<const decltype(element)>(own), std::span(all), 2);
  };
  const auto outcomes = try_ranks(3, [&](Communicator& world) {
    barrier(world);
    if (world.rank() == 2) over.wait();
    world.rank() == 1 ? gathers(world, 0) : gathers(world, 0.0F);
    if (world.rank() != 2) over.count_down();
    barrier(world);
  });
  for (const auto& outcome : outcomes) {
    CHECK(outcome.code == Errc::collective_mismatch);
    CHECK_THAT(outcome.error, Catch::Matchers::ContainsSubstring("called gather(float x 8") &&
                                  Catch::Matchers::ContainsSubstring("called gather(int32 x 8"));
  }
}

TEST_CASE("a call that needed nobody is compared while its callers wait in another communicator",
          "[collectives][mismatch]") {
  Config config;
  config.transport = Transport::unix_socket;
  config.timeout = std::chrono::seconds(20);
  const auto outcomes = try_ranks(
      3,
      [](Communicator& world) {
        auto other = world.dup();
        std::vector<float> none;
        if (world.rank() == 0) return barrier(other, {.algorithm = Algorithm::linear});
        scatter(other, std::span<const float>(none), std::span(none), 1);
        barrier(world);
      },
      config);
  INFO(outcomes[0].error << '\n' << outcomes[1].error << '\n' << outcomes[2].error);
  CHECK(outcomes[0].code == Errc::collective_mismatch);
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("barrier(linear"));
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("scatter(float x 0"));
  CHECK(outcomes[1].code == Errc::peer_failed);
  CHECK(outcomes[2].code == Errc::peer_failed);
}

TEST_CASE("sizes of all_to_all that do not agree are an error on all ranks", "[collectives][mismatch]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    // Rank 0 sends 3 elements where rank 1 expects 2.
    const std::vector<std::size_t> send{1, world.rank() == 0 ? std::size_t{3} : std::size_t{1}};
    const std::vector<std::size_t> receive{world.rank() == 0 ? std::size_t{1} : std::size_t{2}, 1};
    std::vector<int> in(send[0] + send[1]);
    std::vector<int> out(receive[0] + receive[1]);
    all_to_all(world, std::span(in), std::span(out), send, receive);
    barrier(world);
  });
  for (const auto& outcome : outcomes) {
    INFO(outcome.error);
    CHECK(outcome.code == Errc::collective_mismatch);
  }
}

TEST_CASE("a rank that leaves out a call fails the others instead of hanging them", "[collectives][mismatch]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    reduces<float>(8, sum)(world);
    if (world.rank() != 1) barrier(world);
  });
  INFO(outcomes[2].error);
  CHECK_FALSE(outcomes[1].failed());
  CHECK(outcomes[0].code == Errc::peer_failed);
  CHECK(outcomes[2].code == Errc::peer_failed);
  CHECK_THAT(outcomes[0].error, Catch::Matchers::ContainsSubstring("rank 1"));
}

TEST_CASE("a collective that one rank never enters ends at the deadline and says whom it waits for",
          "[collectives][mismatch]") {
  const auto outcomes = try_ranks(3, [](Communicator& world) {
    std::vector<float> data(8);
    if (world.rank() == 1) return static_cast<void>(world.recv(std::span(data), 0));  // until the others have given up
    all_reduce(world, std::span(data), sum, {.timeout = std::chrono::milliseconds(300)});
  });
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    INFO(outcomes[rank].error);
    CHECK(outcomes[rank].code == Errc::timed_out);
    CHECK_THAT(outcomes[rank].error, Catch::Matchers::ContainsSubstring("all_reduce"));
    CHECK_THAT(outcomes[rank].error, Catch::Matchers::ContainsSubstring(": waiting 0.3 s"));
  }
}

TEST_CASE("two threads in collectives on one communicator are an error", "[collectives][mismatch]") {
  const auto outcomes = try_ranks(2, [](Communicator& world) {
    std::vector<float> data(8);
    std::vector<float> other(8);
    std::byte refused{};
    if (world.rank() == 1) world.recv(std::span(&refused, 1), 0);
    Work work = iall_reduce(world, std::span(data), sum);
    Errc code{};
    if (world.rank() == 0) {
      std::thread([&] {
        try {
          all_reduce(world, std::span(other), sum);
        } catch (const Error& error) {
          code = error.code();
        }
      }).join();
      world.send(std::span(&refused, 1), 1);  // till then the first cannot have finished
      require(code == Errc::concurrent_use, "the second thread was let in");
    }
    work.wait();
  });
  for (const auto& outcome : outcomes) CHECK(outcome.error == "");
}

TEST_CASE("asynchronous collectives of one thread run side by side", "[collectives][async]") {
  run_ranks(4, [](Communicator& world) {
    std::vector<std::vector<int>> data;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) data.emplace_back(1000 * static_cast<std::size_t>(i % 3), i + world.rank());
    for (auto& vector : data) works.push_back(iall_reduce(world, std::span(vector), sum));
    wait_all(works);
    for (int i = 0; i < 20; ++i) {
      for (const int value : data[static_cast<std::size_t>(i)]) require(value == 4 * i + 6, "wrong sum");
    }
  });
}
