#include "runtime/cores.hpp"

#include <sched.h>

#include <string>

#include "tests/support/catch.hpp"

using namespace rondo::detail;

TEST_CASE("a quota of a part of a core is one core, and of a part more than some one more", "[runtime][cores]") {
  CHECK(cores_of_quota("150000 100000\n") == 2);
  CHECK(cores_of_quota("200000 100000\n") == 2);
  CHECK(cores_of_quota("50000 100000\n") == 1);
  CHECK(cores_of_quota("1 100000") == 1);
}

TEST_CASE("where there is no quota, or none that can be read, nothing is cut", "[runtime][cores]") {
  CHECK(cores_of_quota("max 100000\n") == 0);
  CHECK(cores_of_quota("") == 0);
  CHECK(cores_of_quota("100000") == 0);
  CHECK(cores_of_quota("many 100000") == 0);
  CHECK(cores_of_quota("100000 0") == 0);
  CHECK(cores_of_quota("-1 100000") == 0);
}

TEST_CASE("only cores that this thread may run on are usable", "[runtime][cores]") {
  cpu_set_t before;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  const int here = ::sched_getcpu();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(here), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(usable_cores() == 1);
  CHECK(own_affinity() == std::string(static_cast<std::size_t>(here), '0') + '1');
  CHECK(::sched_setaffinity(0, sizeof before, &before) == 0);
}
