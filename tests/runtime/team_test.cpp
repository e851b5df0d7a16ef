#include "runtime/team.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/shared_regions.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::detail;

TEST_CASE("members are found by host, and across hosts", "[runtime][team]") {
  const std::vector<int> host_of{0, 0, 2, 3, 0, 3};
  Hosts hosts(host_of, 3);
  CHECK(hosts.count() == 3);
  CHECK(hosts.fewest() == 1);
  CHECK_FALSE(hosts.in_order());
  CHECK(hosts.host(5) == 2);
  CHECK(hosts.place(5) == 1);
  CHECK(hosts.within().members == std::vector<int>{3, 5});
  CHECK(hosts.within().rank == 0);
  CHECK(hosts.across(0).members == std::vector<int>{0, 2, 3});
  CHECK(hosts.across(0).rank == 2);
  CHECK(hosts.across(1).members == std::vector<int>{1, 2, 5});
  CHECK(hosts.across(1).rank == -1);
  CHECK(hosts.across(2).members == std::vector<int>{4, 2, 3});
  CHECK(hosts.across(2).place_of(4) == 0);
  CHECK(hosts.across(2).place_of(5) == -1);
}

TEST_CASE("who shares memory with nobody is on a host of its own", "[runtime][team]") {
  const std::vector<int> host_of{0, 0, -1, -1};
  Hosts hosts(host_of, 2);
  CHECK(hosts.count() == 3);
  CHECK(hosts.in_order());
  CHECK(hosts.within().members == std::vector<int>{2});
  CHECK(hosts.across(1).members == std::vector<int>{1, 2, 3});
}

TEST_CASE("a region stays mapped while a message is copied out of it, though its buffer is given up",
          "[runtime][team]") {
  constexpr std::size_t kPart = 4096;
  SharedRegions regions;
  auto memory = std::make_shared<SharedMemory>(SharedMemory::create(2 * kPart));
  const std::weak_ptr<SharedMemory> mapped = memory;
  regions.add(regions.next(), memory, kPart);
  auto copied = regions.at({1, 100}, 1000, 1);
  CHECK(copied.get() == memory->data() + kPart + 100);
  memory.reset();  // by another thread
  CHECK_FALSE(mapped.expired());
  copied.reset();
  CHECK(mapped.expired());
  CHECK(regions.at({1, 100}, 1000, 1) == nullptr);
}
