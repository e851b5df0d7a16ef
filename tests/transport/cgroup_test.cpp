#include "transport/cgroup.hpp"

#include <cstddef>
#include <limits>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/cgroup_root.hpp"

using namespace rondo::detail;
using rondo::testing::CgroupRoot;

namespace {

constexpr std::size_t kAnything = std::numeric_limits<std::size_t>::max();

/// The most bytes that are left.
std::size_t left(const CgroupRoot& root, const std::string& path, const std::string& path_in_v1 = "",
                 std::size_t free_swap = 0) {
  const CgroupMemory memory(root.directory(), path, path_in_v1);
  if (memory.leave(kAnything, free_swap)) return kAnything;
  std::size_t most = 0;
  for (std::size_t bytes = std::size_t{1} << 40; bytes > 0; bytes /= 2) {
    if (memory.leave(most + bytes, free_swap)) most += bytes;
  }
  return most;
}

}  // namespace

TEST_CASE("a process's cgroup is told by its controller in version 1, and without one in version 2",
          "[transport][cgroup]") {
  const char* const lines = "5:cpu,cpuacct:/job:1/rank\n4:memory:/job\n1:name=systemd:/x\n0::/user/job\n";
  CHECK(cgroup_in(lines, "") == "/user/job");
  CHECK(cgroup_in(lines, "memory") == "/job");
  CHECK(cgroup_in(lines, "cpu") == "/job:1/rank");
  CHECK(cgroup_in(lines, "cpuacct") == "/job:1/rank");
  CHECK(cgroup_in(lines, "mem").empty());
  CHECK(cgroup_in("", "").empty());
  CHECK(cgroup_in("nonsense", "memory").empty());
  CHECK(cgroup_in("4:memory:/job", "memory") == "/job");
}

TEST_CASE("a file is read whole, or there is no text of it", "[transport][cgroup]") {
  const CgroupRoot root;
  root.write("/file", "one\ntwo\n");
  CHECK(text_of_file(root.directory() + "/file") == "one\ntwo\n");
  CHECK(text_of_file(root.directory() + "/none").empty());
  CHECK(text_of_file(root.directory()).empty());
}

TEST_CASE("limits may stand in a cgroup and in all above it", "[transport][cgroup]") {
  CHECK(cgroup_directories("/m", "/a/b") == std::vector<std::string>{"/m/a/b", "/m/a", "/m"});
  CHECK(cgroup_directories("/m", "/") == std::vector<std::string>{"/m"});
  CHECK(cgroup_directories("/m", "") == std::vector<std::string>{"/m"});
}

TEST_CASE("what the memory limits of version 2 leave is the least that any level does", "[transport][cgroup]") {
  const CgroupRoot root;
  CHECK(left(root, "/job/rank") == kAnything);
  root.write("/job/rank/memory.max", "max\n");
  root.write("/job/rank/memory.current", "5000\n");
  CHECK(left(root, "/job/rank") == kAnything);
  root.write("/job/memory.max", "100000\n");
  CHECK(left(root, "/job/rank") == kAnything);  // what is used is not known
  root.write("/job/memory.current", "70000\n");
  CHECK(left(root, "/job/rank") == 30'000);
  root.write(
      "/job/memory.stat",
      "anon 60000\nfile 10000\nworkingset_active_file 9\nactive_file 3000\ninactive_file 2000\nslab_reclaimable 500");
  CHECK(left(root, "/job/rank") == 35'500);
  root.write("/memory.max", "90000\n");
  root.write("/memory.current", "90001\n");
  CHECK(left(root, "/job/rank") == 0);
  CHECK(left(root, "") == 0);  // a container that sees its own as the root
}

TEST_CASE("what can be swapped out leaves room as far as the cgroup may swap", "[transport][cgroup]") {
  const CgroupRoot root;
  root.write("/memory.max", "1000\n");
  root.write("/memory.current", "1000\n");
  CHECK(left(root, "", "", 300) == 300);
  root.write("/memory.swap.max", "max\n");
  CHECK(left(root, "", "", 300) == 300);
  root.write("/memory.swap.max", "500\n");
  root.write("/memory.swap.current", "400\n");
  CHECK(left(root, "", "", 300) == 100);
  CHECK(left(root, "", "", 50) == 50);
  root.write("/memory.swap.max", "0\n");
  CHECK(left(root, "", "", 300) == 0);
}

TEST_CASE("the memory limits of version 1 count, too", "[transport][cgroup]") {
  const CgroupRoot root;
  root.write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("/memory/memory.usage_in_bytes", "123456\n");
  CHECK(left(root, "/", "/job") == kAnything);
  root.write("/memory/job/memory.limit_in_bytes", "100000\n");
  root.write("/memory/job/memory.usage_in_bytes", "40000\n");
  root.write("/memory/job/memory.stat", "active_file 7\ntotal_inactive_file 1000\ntotal_active_file 500\n");
  CHECK(left(root, "/", "/job") == 61'500);
  CHECK(left(root, "/", "/other") == kAnything);
  CHECK(left(root, "/", "/job", 5000) == 66'500);
  root.write("/memory/job/memory.memsw.limit_in_bytes", "100000\n");  // nothing can be swapped out
  root.write("/memory/job/memory.memsw.usage_in_bytes", "41000\n");
  CHECK(left(root, "/", "/job", 5000) == 60'500);
}
