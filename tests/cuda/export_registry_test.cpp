#include "cuda/export_registry.hpp"

#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;
using Unmap = ExportRegistry::Unmap;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// Memory that stays, of which tests say what lies where: an allocation of their invention at each part.
class Registry : public DeviceUnderTest {
 public:
  PointerFacts allocation(std::uint64_t begin, std::uint64_t end, std::uint64_t buffer_id) const {
    PointerFacts facts = memory.facts();
    facts.base = memory.address() + begin;
    facts.bytes = end - begin;
    facts.buffer_id = buffer_id;
    return facts;
  }
  ExportRegistry::Exposure expose(int peer, const PointerFacts& facts, std::uint64_t offset = 0) {
    const Current current(context);
    return registry.expose(peer, facts, facts.base + offset);
  }

  DeviceMemory memory{context, 16 * kMiB};
  ExportRegistry registry{driver()};
};

}  // namespace

TEST_CASE("a region is described to each peer once", "[cuda][export_registry]") {
  Registry test;
  const PointerFacts facts = test.allocation(0, 4 * kMiB, 1);
  const auto first = test.expose(0, facts, 100);
  CHECK(first.offset == 100);
  CHECK(first.unmap.empty());
  REQUIRE(first.description);
  CHECK(first.description->id == first.region);
  CHECK(first.description->base == facts.base);
  CHECK(first.description->bytes == facts.bytes);

  const auto again = test.expose(0, facts, 200);
  CHECK(again.region == first.region);
  CHECK(again.offset == 200);
  CHECK(!again.description);
  const auto other = test.expose(1, facts);
  CHECK(other.region == first.region);
  CHECK(other.description);
}

TEST_CASE("an address that has become another allocation's ends the region for all who know it",
          "[cuda][export_registry]") {
  Registry test;
  const PointerFacts facts = test.allocation(0, 4 * kMiB, 1);
  const RegionId old = test.expose(0, facts).region;
  test.expose(2, facts);
  const auto reused = test.expose(1, test.allocation(0, 4 * kMiB, 2));
  CHECK(reused.unmap == std::vector{Unmap{0, old}, Unmap{2, old}});
  CHECK(reused.region != old);
  CHECK(reused.description);
  CHECK(test.expose(0, test.allocation(0, 4 * kMiB, 2)).unmap.empty());
}

TEST_CASE("an allocation ends all regions that it overlaps, and no other", "[cuda][export_registry]") {
  Registry test;
  const RegionId before = test.expose(0, test.allocation(0, 2 * kMiB, 1)).region;
  const RegionId first = test.expose(0, test.allocation(2 * kMiB, 5 * kMiB, 2)).region;
  const RegionId second = test.expose(0, test.allocation(5 * kMiB, 6 * kMiB, 3)).region;
  const RegionId third = test.expose(0, test.allocation(6 * kMiB, 9 * kMiB, 4)).region;
  const RegionId behind = test.expose(0, test.allocation(9 * kMiB, 10 * kMiB, 5)).region;
  const auto across = test.expose(0, test.allocation(4 * kMiB, 7 * kMiB, 6));
  CHECK(across.unmap == std::vector{Unmap{0, first}, Unmap{0, second}, Unmap{0, third}});
  CHECK(test.registry.live_regions() == 3);
  CHECK(test.expose(0, test.allocation(0, 2 * kMiB, 1)).region == before);
  CHECK(test.expose(0, test.allocation(9 * kMiB, 10 * kMiB, 5)).region == behind);
}

TEST_CASE("the numbers of regions are never used again", "[cuda][export_registry]") {
  Registry test;
  RegionId last = 0;
  for (std::uint64_t buffer = 1; buffer <= 100; ++buffer) {
    const RegionId region = test.expose(0, test.allocation(0, kMiB, buffer)).region;
    CHECK(region > last);
    last = region;
  }
}

TEST_CASE("memory may be freed when all who knew its region have closed it", "[cuda][export_registry]") {
  Registry test;
  const PointerFacts facts = test.allocation(2 * kMiB, 4 * kMiB, 1);
  const RegionId region = test.expose(0, facts).region;
  test.expose(1, facts);
  test.expose(2, facts);
  const auto told = test.registry.retire(facts.base, facts.bytes);
  CHECK(told == std::vector{Unmap{0, region}, Unmap{1, region}, Unmap{2, region}});
  const auto closed = [&] { return test.registry.is_closed(facts.base, facts.bytes); };
  CHECK(!closed());
  CHECK(test.registry.is_closed(facts.base + facts.bytes, kMiB));
  test.registry.closed(1, region);
  test.registry.closed(0, region);
  CHECK(!closed());
  SECTION("by its answer") { test.registry.closed(2, region); }
  SECTION("by its end") { test.registry.forget(2); }
  CHECK(closed());
}

TEST_CASE("an allocation that nobody was told of may be freed at once", "[cuda][export_registry]") {
  Registry test;
  const PointerFacts facts = test.allocation(0, kMiB, 1);
  CHECK_FALSE(test.registry.is_retired(facts.base));
  CHECK(test.registry.retire(facts.base, facts.bytes).empty());
  CHECK(test.registry.is_closed(facts.base, facts.bytes));
  CHECK(test.registry.is_retired(facts.base));
  test.registry.released(facts.base);
  CHECK_FALSE(test.registry.is_retired(facts.base));
}

TEST_CASE("an allocation is unknown until a peer is told of it, and again when all have closed it",
          "[cuda][export_registry]") {
  Registry test;
  const PointerFacts facts = test.allocation(0, kMiB, 1), other = test.allocation(4 * kMiB, kMiB, 2);
  const auto is_unknown = [&] { return test.registry.is_unknown(facts.base, facts.bytes); };
  CHECK(is_unknown());
  const RegionId region = test.expose(0, facts).region;
  CHECK_FALSE(is_unknown());
  CHECK(test.registry.is_unknown(other.base, other.bytes));
  (void)test.registry.retire(facts.base, facts.bytes);
  CHECK_FALSE(is_unknown());
  test.registry.closed(0, region);
  CHECK(is_unknown());
}

TEST_CASE("a peer that is gone is told nothing, and one that comes again everything", "[cuda][export_registry]") {
  Registry test;
  const PointerFacts facts = test.allocation(0, kMiB, 1);
  const RegionId region = test.expose(0, facts).region;
  test.expose(1, facts);
  test.registry.forget(1);
  CHECK(test.expose(1, facts).description);
  test.registry.forget(1);
  CHECK(test.registry.retire(facts.base, facts.bytes) == std::vector{Unmap{0, region}});
}

TEST_CASE("answers that nobody asked for are errors", "[cuda][export_registry]") {
  Registry test;
  const PointerFacts facts = test.allocation(0, kMiB, 1);
  const RegionId region = test.expose(0, facts).region;
  CHECK_THROWS_AS(test.registry.closed(0, region), RegionError);
  test.registry.retire(facts.base, facts.bytes);
  CHECK_THROWS_AS(test.registry.closed(1, region), RegionError);
  CHECK_THROWS_AS(test.registry.closed(0, region + 1), RegionError);
  test.registry.closed(0, region);
  CHECK_THROWS_AS(test.registry.closed(0, region), RegionError);
}

TEST_CASE("what had to be said before an export that failed is said with the next", "[cuda][export_registry]") {
  Registry test;
  const RegionId old = test.expose(0, test.allocation(0, kMiB, 1)).region;
  PointerFacts bad = test.allocation(0, kMiB, 2);
  bad.base = 4096;
  bad.bytes = test.memory.address() + kMiB;  // overlaps, and begins where no memory is
  CHECK_THROWS_AS(test.expose(0, bad), CudaError);
  const auto next = test.expose(1, test.allocation(0, kMiB, 3));
  CHECK(next.unmap == std::vector{Unmap{0, old}});
}
