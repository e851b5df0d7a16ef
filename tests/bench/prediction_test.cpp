#include "bench/tune/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bench/tune/arena_model.hpp"
#include "bench/tune/candidates.hpp"
#include "tests/support/catch.hpp"

using namespace rondo;
using namespace rondo::bench;

namespace {

/// Microseconds and nanoseconds that are easy to add up.
constexpr ArenaModel kEasy{.call = 0, .meeting = 1, .turn = 10, .access = 1, .staged = 1, .pull = 3};
constexpr std::uint64_t kStep = 512 << 10;

Question on_one_host(Collective collective, std::uint64_t bytes, int ranks, bool oversubscribed = false) {
  Question question{collective, bytes, ranks, oversubscribed};
  question.one_host = true;
  return question;
}

double direct_time(Collective collective, std::uint64_t bytes, int ranks) {
  return arena_microseconds(on_one_host(collective, bytes, ranks), Algorithm::direct, ranks, kEasy).value();
}
double fetched_time(Collective collective, std::uint64_t bytes, int ranks) {
  return arena_microseconds(on_one_host(collective, bytes, ranks), Algorithm::fetched, ranks, kEasy).value();
}

Catch::Approx about(double microseconds) { return Catch::Approx(microseconds).epsilon(1e-9); }

}  // namespace

TEST_CASE("ranks with a core each move their bytes and meet", "[bench][tune]") {
  CHECK(direct_time(Collective::barrier, 0, 2) == about(1));
  CHECK(direct_time(Collective::broadcast, 1000, 8) == about(2 + 1 + 2));
  CHECK(direct_time(Collective::all_reduce, 1000, 4) == about(2 + 1 + 5));
  CHECK(direct_time(Collective::reduce, 1000, 4) == about(2 + 1 + 5));
  CHECK(direct_time(Collective::all_gather, 4000, 4) == about(2 + 2 + 1 + 6));
  CHECK(direct_time(Collective::reduce_scatter, 4000, 4) == about(6 + 1 + 5));
  CHECK(direct_time(Collective::all_to_all, 4000, 4) == about(2 + 6 + 1 + 6));
  CHECK(direct_time(Collective::gather, 4000, 4) == about(2 + 1 + 6));
  CHECK(direct_time(Collective::scatter, 4000, 4) == about(2 + 6 + 1 + 2));
}

TEST_CASE("slices share out the arithmetic for a second meeting", "[bench][tune]") {
  const auto time = [](Collective collective) {
    return arena_microseconds(on_one_host(collective, 4000, 4), Algorithm::sliced, 4, kEasy).value();
  };
  CHECK(time(Collective::all_reduce) == about(6 + 1 + 5 + 1 + 8));
  CHECK(time(Collective::reduce) == about(6 + 1 + 5 + 1 + 8));
}

TEST_CASE("while a window is read the next is laid out", "[bench][tune]") {
  const double copied = 2e-3 * kStep;
  CHECK(direct_time(Collective::broadcast, 3 * kStep, 3) == about(4 * copied + 1));
  // Where all do the same at the same time, nothing overlaps.
  CHECK(direct_time(Collective::all_reduce, 3 * kStep, 2) == about(3 * (copied + 1 + 1.5 * copied)));
}

TEST_CASE("blocks that are fetched are copied once, between two meetings", "[bench][tune]") {
  const double block = 64 << 10;
  CHECK(fetched_time(Collective::scatter, 4 * 64 << 10, 4) == about(1 + 3e-3 * block + 1));
  // Of each block of a gather its owner, who waits for the root alone, writes half.
  CHECK(fetched_time(Collective::gather, 4 * 1000, 4) == about(1 + 2 + 0.5 * 9 + 1));
  CHECK(fetched_time(Collective::all_to_all, 4 * 64 << 10, 4) == about(1 + 2e-3 * block + 9e-3 * block + 1));
  // Of two ranks a whole vector, of which the owner writes a part.
  CHECK(fetched_time(Collective::broadcast, 128 << 10, 2) == about(1 + 3e-3 * block + 1));
  CHECK(fetched_time(Collective::broadcast, 4 << 20, 2) == about(1 + 3e-3 * (2 << 20) + 1));
  CHECK(fetched_time(Collective::scatter, 4 * 256 << 10, 4) == about(1 + 3e-3 * (256 << 10) + 1));
  CHECK(fetched_time(Collective::all_gather, 2 * 256 << 10, 2) == about(1 + 5e-3 * (256 << 10) + 1));
  for (const std::uint64_t bytes : {64U << 10, 4U << 20}) {
    const Question question = on_one_host(Collective::all_gather, bytes, 2);
    CHECK(arena_microseconds(question, Algorithm::adaptive, 2, kEasy) ==
          std::min(direct_time(question.collective, bytes, 2), fetched_time(question.collective, bytes, 2)));
  }
}

TEST_CASE("where nothing can be fetched, nothing of it is predicted", "[bench][tune]") {
  ArenaModel forbidden = kEasy;
  forbidden.pull = std::numeric_limits<double>::infinity();
  const auto time = [&](Algorithm algorithm, std::uint64_t bytes) {
    return arena_microseconds(on_one_host(Collective::all_gather, bytes, 2), algorithm, 2, forbidden).value();
  };
  CHECK(std::isinf(time(Algorithm::fetched, 1000)));
  CHECK(time(Algorithm::fetched, 0) == about(2));
  CHECK(time(Algorithm::adaptive, 1000) == time(Algorithm::direct, 1000));
}

TEST_CASE("ranks that share cores do the work of all, and take turns", "[bench][tune]") {
  const auto time = [](Collective collective, std::uint64_t bytes, Algorithm algorithm) {
    return arena_microseconds(on_one_host(collective, bytes, 8, true), algorithm, 2, kEasy).value();
  };
  CHECK(time(Collective::barrier, 0, Algorithm::direct) == about(8 * 10 / 2.0));
  CHECK(time(Collective::broadcast, 1000, Algorithm::direct) == about((8 * 2 + 7 * 10) / 2.0));
  CHECK(time(Collective::all_reduce, 8000, Algorithm::sliced) == about(8 * (14 + 9 + 16 + 2 * 10) / 2.0));
}

TEST_CASE("messages take the work of all ranks over the cores at least", "[bench][tune]") {
  const auto time = [](Collective collective, Algorithm algorithm, int ranks, bool oversubscribed) {
    const Question question{collective, 8 << 20, ranks, oversubscribed};
    return predicted_microseconds(question, {algorithm, 0}, {Path::tcp, 1, 1}).value();
  };
  const Constants constants;
  const rondo::simulation::LogGP& network = constants.tcp;
  const double overhead = static_cast<double>(network.overhead) / rondo::simulation::kMicrosecond;
  const double per_byte = 1e-6 * network.gap_per_byte;
  // Seven messages of a MiB, which both sides handle, on one core in turn.
  const double message = 2 * overhead + 2 * per_byte * (1 << 20);
  CHECK(time(Collective::gather, Algorithm::linear, 8, true) ==
        about(7 * (message + constants.arena.turn + constants.vain)));
  CHECK(time(Collective::gather, Algorithm::linear, 8, false) < 7 * message);
  // Both send and receive everything.
  CHECK(time(Collective::all_reduce, Algorithm::recursive_doubling, 2, false) > 2 * per_byte * (8 << 20));
}

TEST_CASE("there is a time for every candidate, and none where ranks are too many for an arena", "[bench][tune]") {
  for (const bool one_host : {false, true}) {
    Question question{Collective::all_reduce, 1 << 20, 4, true};
    question.one_host = one_host;
    question.hosts = question.hosts_in_order = question.hosts_alike = !one_host;
    for (const Choice& choice : candidates_for(question)) {
      const auto time = predicted_microseconds(question, choice, {Path::tcp, one_host ? 1 : 2, 2});
      REQUIRE(time.has_value());
      CHECK(*time > 100);
    }
  }
  CHECK_FALSE(arena_microseconds(on_one_host(Collective::barrier, 0, 1 << 16), Algorithm::direct, 2).has_value());
}

TEST_CASE("two levels take what their parts take", "[bench][tune]") {
  const auto predicted = [](Collective collective, std::uint64_t bytes, int ranks, bool one_host) {
    Question question{collective, bytes, ranks, one_host};
    question.one_host = one_host;
    return predicted_microseconds(question, choose(question), {Path::tcp, 1, 2}).value();
  };
  const auto two_levels = [](Collective collective, std::uint64_t bytes) {
    Question question{collective, bytes, 12, true};
    question.hosts = question.hosts_in_order = question.hosts_alike = true;
    return predicted_microseconds(question, {Algorithm::two_level, 0}, {Path::tcp, 3, 2}).value();
  };
  CHECK(two_levels(Collective::barrier, 0) ==
        about(2 * predicted(Collective::barrier, 0, 4, true) + predicted(Collective::barrier, 0, 3, false)));
  CHECK(two_levels(Collective::all_reduce, 600) ==
        about(predicted(Collective::reduce, 600, 4, true) + predicted(Collective::all_reduce, 600, 3, false) +
              predicted(Collective::broadcast, 600, 4, true)));
  CHECK(two_levels(Collective::all_reduce, 12 << 20) == about(predicted(Collective::reduce_scatter, 12 << 20, 4, true) +
                                                              predicted(Collective::all_reduce, 3 << 20, 3, false) +
                                                              predicted(Collective::all_gather, 12 << 20, 4, true)));
  CHECK(two_levels(Collective::scatter, 1200) ==
        about(predicted(Collective::scatter, 1200, 3, false) + predicted(Collective::scatter, 400, 4, true)));
  CHECK(two_levels(Collective::all_to_all, 1200) ==
        about(predicted(Collective::all_to_all, 1200, 4, true) + predicted(Collective::all_to_all, 1200, 3, false)));
}
