#include "bench/compare/core_distance.hpp"

#include <sched.h>

#include <deque>
#include <utility>

#include "tests/support/catch.hpp"

using rondo::bench::CoreDistance;

namespace {

/// Distances that are found one after the other, the last again and again.
CoreDistance::Measure finding(std::deque<double>& distances) {
  return [&distances] {
    const double found = distances.front();
    if (distances.size() > 1) distances.pop_front();
    return found;
  };
}

}  // namespace

TEST_CASE("programs of a comparison start when the cores are near each other", "[bench]") {
  std::deque<double> distances{0.06, 0.25, 0.19, 0.05};
  CoreDistance distance(finding(distances));
  CHECK(distance.settle() == 0.06);
  CHECK(distance.settle() == 0.05);
  CHECK(distances.size() == 1);
  CHECK(distance.is_near(distance.now()));
  CHECK(distance.settled() == 2);
  CHECK(distance.apart() == 0);
  CHECK(distance.least() == 0.05);
  distances = {0};  // the thread had lost its core
  CHECK(distance.is_near(distance.now()));
  CHECK(distance.least() == 0.05);
}

TEST_CASE("cores that stay apart are not waited for for ever, and are told of", "[bench]") {
  std::deque<double> distances{0.05, 0.25};
  CoreDistance distance(finding(distances), 0);
  CHECK(distance.is_near(distance.settle()));
  CHECK_FALSE(distance.is_near(distance.settle()));
  CHECK_FALSE(distance.is_near(distance.now()));
  CHECK(distance.settled() == 1);
  CHECK(distance.apart() == 1);
}

TEST_CASE("what was taken for near is apart once cores were seen that are nearer", "[bench]") {
  std::deque<double> distances{0.25, 0.05};
  CoreDistance distance(finding(distances));
  const double first = distance.settle();
  CHECK(distance.is_near(first));
  distance.settle();
  CHECK_FALSE(distance.is_near(first));
  CHECK(distance.settled() == 1);
  CHECK(distance.apart() == 1);
}

TEST_CASE("the distance of two cores is found, and leaves the thread free to move", "[bench]") {
  cpu_set_t before, after;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const double found = CoreDistance::between_first_two_cores();
  CHECK((CPU_COUNT(&before) < 2) == (found == 0));
  CHECK(found >= 0);
  REQUIRE(::sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("where there are not two cores nothing is waited for", "[bench]") {
  std::deque<double> distances{0};
  CoreDistance distance(finding(distances));
  CHECK(distance.is_near(distance.settle()));
  CHECK(distance.is_near(distance.now()));
  CHECK(distance.settled() + distance.apart() == 0);
}
