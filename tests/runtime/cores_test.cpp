#include "runtime/cores.hpp"

#include <sched.h>

#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/cgroup_root.hpp"

using namespace rondo::detail;
using rondo::testing::CgroupRoot;

namespace {

int cores(const CgroupRoot& root, const std::string& path, const std::string& path_in_v1 = "") {
  return cores_of_cgroups(root.directory(), path, path_in_v1);
}

}  // namespace

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

TEST_CASE("the least quota of a cgroup and those above counts", "[runtime][cores]") {
  const CgroupRoot root;
  CHECK(cores(root, "/job/rank") == 0);
  root.write("/job/rank/cpu.max", "max 100000\n");
  CHECK(cores(root, "/job/rank") == 0);
  root.write("/job/cpu.max", "300000 100000\n");
  CHECK(cores(root, "/job/rank") == 3);
  root.write("/job/rank/cpu.max", "400000 100000\n");
  CHECK(cores(root, "/job/rank") == 3);
  root.write("/cpu.max", "150000 100000\n");
  CHECK(cores(root, "/job/rank") == 2);
  CHECK(cores(root, "") == 2);  // a container that sees its own as the root
}

TEST_CASE("the quota of the first version of cgroups counts", "[runtime][cores]") {
  const CgroupRoot root;
  root.write("/cpu/cpu.cfs_period_us", "100000\n");
  root.write("/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK(cores(root, "") == 0);
  root.write("/cpu/cpu.cfs_quota_us", "250000\n");
  CHECK(cores(root, "") == 3);
  CHECK(cores(root, "", "/job/rank") == 3);
  root.write("/cpu/job/cpu.cfs_period_us", "50000\n");
  root.write("/cpu/job/cpu.cfs_quota_us", "75000\n");
  CHECK(cores(root, "", "/job/rank") == 2);
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

TEST_CASE("a thread moves to a core that it may use, and may go on from there", "[runtime][cores]") {
  cpu_set_t before, after;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  int found_there = 0, tried = 0;
  for (int trial = 0; trial < 20; ++trial) {
    for (const int core : own_cores()) {
      ++tried;
      CHECK(move_to_core(core));
      found_there += ::sched_getcpu() == core ? 1 : 0;
    }
  }
  CHECK(found_there > tried * 8 / 10);         // the system may have moved it on at once
  CHECK_FALSE(move_to_core(CPU_SETSIZE - 1));  // which it may not use
  CHECK(::sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("lists of cores are read as the kernel writes them", "[runtime][cores]") {
  CHECK(parse_cpu_list("0") == std::vector<int>{0});
  CHECK(parse_cpu_list("0,4") == std::vector<int>{0, 4});
  CHECK(parse_cpu_list("2-4,7") == std::vector<int>{2, 3, 4, 7});
  CHECK(parse_cpu_list("").empty());
}
