// Exchanges that find out which way they go.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <rondo/rondo.hpp>

#include "runtime/access.hpp"
#include "runtime/trial.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/ranks.hpp"

using namespace rondo;
using namespace rondo::testing;
using detail::Trial;
using std::chrono::nanoseconds;

namespace {

constexpr Options kAdaptive{.algorithm = Algorithm::adaptive};
constexpr std::size_t kBlock = 50'001;

std::uint32_t word(std::uint32_t call, int from, std::size_t at) {
  return call * 1'000'000'000 + static_cast<std::uint32_t>(from) * 100'000'000 + static_cast<std::uint32_t>(at);
}

Trial& trial(Communicator& world, Collective collective) {
  return CommunicatorAccess::group(world, "").commons().trial(collective, kBlock * sizeof(std::uint32_t));
}

/// One of each; what was sent is spoiled at once.
void exchange(Communicator& world, std::uint32_t call) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::uint32_t> sent(kBlock * ranks), got(kBlock * ranks);
  const auto check = [&](std::size_t first_at, const char* what) {
    std::fill(sent.begin(), sent.end(), 0xdeadbeef);
    for (std::size_t i = 0; i < got.size(); ++i) {
      require(got[i] == word(call, static_cast<int>(i / kBlock), first_at + i % kBlock), what);
    }
  };
  const auto fill = [&] {
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = word(call, world.rank(), i);
  };
  fill();
  all_gather(world, std::span<const std::uint32_t>(sent).first(kBlock), std::span(got), kAdaptive);
  check(0, "all_gather");
  fill();
  all_to_all(world, std::span<const std::uint32_t>(sent), std::span(got), kAdaptive);
  check(static_cast<std::size_t>(world.rank()) * kBlock, "all_to_all");
}

}  // namespace

TEST_CASE("exchanges are right whichever way they go", "[collectives][adaptive]") {
  for (const int size : {2, 3, 5}) {
    run_ranks(size, [](Communicator& world) {
      std::minstd_rand own(static_cast<unsigned>(world.rank()) + 1);
      constexpr std::uint32_t kTried = 2 * Trial::kInRow;
      for (std::uint32_t call = 1; call <= Trial::kRows * kTried + 3; ++call) {
        dawdle(own);
        exchange(world, call % 4);
        require(!trial(world, Collective::all_gather).due() || call % kTried == 0, "it was not settled");
      }
    });
  }
}

TEST_CASE("all ranks go the way that is shorter for the one for whom it is longest", "[collectives][adaptive]") {
  const int faster = GENERATE(0, 1);
  run_ranks(3, [&](Communicator& world) {
    exchange(world, 0);  // makes what ranks have in common
    // By themselves, rank 0 would go the one and the others the other.
    const bool is_first = world.rank() == 0;
    const nanoseconds slower_time(is_first ? 10 : 100), faster_time(is_first ? 60 : 50);
    for (const Collective collective : {Collective::all_gather, Collective::all_to_all}) {
      Trial& mine = trial(world, collective) = Trial();
      for (int i = 0; i < 2 * Trial::kInRow; ++i) mine.took(mine.way() == faster ? faster_time : slower_time, 1);
    }
    exchange(world, 1);
    for (const Collective collective : {Collective::all_gather, Collective::all_to_all}) {
      require(!trial(world, collective).due() && trial(world, collective).way() == faster, to_string(collective));
    }
    exchange(world, 2);
  });
}
