#include "runtime/home_core.hpp"

#include <chrono>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/support/catch.hpp"

using namespace rondo::detail;
using std::chrono::milliseconds;

namespace {

using Homes = std::vector<std::optional<int>>;
constexpr std::optional<int> kNone;

std::vector<int> all_places(int ranks) {
  std::vector<int> places(static_cast<std::size_t>(ranks));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

Homes homes_of(const std::vector<int>& cores, const std::vector<int>& places, int ranks) {
  Homes all;
  for (std::size_t own = 0; own < places.size(); ++own) all.push_back(home_core(cores, places, own, ranks));
  return all;
}

/// A rank whose home is core 3.
class Rank {
 public:
  explicit Rank(int core) {
    home_.belong_to(3);
    here = core;
    moves = 0;
    bound = false;
  }
  void belong_to(std::optional<int> core) { home_.belong_to(core); }
  bool find_waiting(Duration after) { return home_.found_waiting(now_ += after); }
  void find_computing(Duration after) { home_.found_computing(now_ += after); }
  /// In so long, in which others wait on its core, and something takes it away again whenever it is home.
  int moves_in(Duration time) {
    moves = 0;
    for (Duration passed{}; passed < time; passed += milliseconds(1)) {
      here = 0;
      find_waiting(milliseconds(1));
    }
    return moves;
  }

  static inline int here = 0;
  static inline int moves = 0;
  static inline bool bound = false;

 private:
  static int where() { return here; }
  static bool move(int core) {
    ++moves;
    if (bound) return false;
    here = core;
    return true;
  }

  HomeCore home_{&where, &move};
  Time now_{};
};

}  // namespace

TEST_CASE("ranks that need all cores are dealt out to them, neighbours to the same", "[runtime][cores]") {
  const auto homes = [](const std::vector<int>& cores, int ranks) { return homes_of(cores, all_places(ranks), ranks); };
  CHECK(homes({0, 1}, 4) == Homes{0, 0, 1, 1});
  CHECK(homes({1, 3}, 2) == Homes{1, 3});
  CHECK(homes({0, 2, 3}, 7) == Homes{0, 0, 0, 2, 2, 3, 3});
  CHECK(homes({0, 1, 2}, 2) == Homes{kNone, kNone});  // cores to spare
  CHECK(homes({0}, 2) == Homes{kNone, kNone});
  CHECK(homes({}, 2) == Homes{kNone, kNone});
}

TEST_CASE("members of a communicator wait where they do in the world, if that is even", "[runtime][cores]") {
  CHECK(homes_of({0, 1}, {0, 2, 4, 6}, 8) == Homes{0, 0, 1, 1});
  CHECK(homes_of({0, 1}, {3, 7}, 8) == Homes{0, 1});
  CHECK(homes_of({0, 1}, {3, 4, 5}, 9) == Homes{0, 0, 1});
  SECTION("if not, as many on each core, and another one has more of the next group") {
    CHECK(homes_of({0, 1}, {0, 1, 2, 3}, 8) == Homes{0, 0, 1, 1});
    CHECK(homes_of({0, 1}, {4, 5, 6, 7}, 8) == Homes{1, 1, 0, 0});
    CHECK(homes_of({0, 1}, {0, 1, 2}, 6) == Homes{0, 0, 1});
    CHECK(homes_of({0, 1}, {3, 4, 5}, 6) == Homes{1, 1, 0});
  }
}

TEST_CASE("a rank that finds others waiting on another core goes home, once in a while", "[runtime][cores]") {
  Rank rank(0);
  rank.find_waiting(milliseconds(1));
  CHECK(Rank::here == 3);
  Rank::here = 0;
  rank.find_waiting(HomeCore::kBetweenLooks / 2);
  CHECK(Rank::here == 0);
  rank.find_waiting(HomeCore::kBetweenLooks / 2);
  CHECK(Rank::here == 3);
  rank.find_waiting(HomeCore::kBetweenLooks);
  CHECK(Rank::moves == 2);
}

TEST_CASE("the more often others are met that compute, the longer a rank stays where it is", "[runtime][cores]") {
  Rank rank(0);
  for (int time = 0; time < 20; ++time) rank.find_computing(milliseconds(4));
  CHECK(rank.moves_in(5 * HomeCore::kMostBetweenLooks) == 5);
  // Once it has been found at home, sooner and sooner again.
  for (int look = 0; look < 20; ++look) {
    Rank::here = 3;
    rank.find_waiting(HomeCore::kMostBetweenLooks);
  }
  CHECK(rank.moves_in(milliseconds(20)) == 20);
}

TEST_CASE("a rank that belongs to no core stays where it is", "[runtime][cores]") {
  Rank rank(0);
  rank.belong_to(std::nullopt);
  CHECK(rank.moves_in(milliseconds(20)) == 0);
  rank.belong_to(5);
  CHECK(rank.find_waiting(milliseconds(1)));
  CHECK(Rank::here == 5);
  CHECK_FALSE(rank.find_waiting(milliseconds(1)));
}

TEST_CASE("a rank that has been bound to other cores tries again once a second", "[runtime][cores]") {
  Rank rank(0);
  Rank::bound = true;
  CHECK(rank.moves_in(5 * HomeCore::kMostBetweenLooks) == 5);
}
