#include "cuda/import_table.hpp"

#include <optional>
#include <sstream>
#include <string>

#include "tests/cuda/child.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/wire_text.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;

namespace {

constexpr int kPeer = 5;

/// What the process `sharer` says of an exposure.
struct Heard {
  std::vector<RegionId> unmap;
  RegionId region = 0;
  std::uint64_t offset = 0;
  std::optional<RegionDescription> description;
};

/// The other process, with a registry of its own: it exposes an allocation at each line.
class Sharer {
 public:
  explicit Sharer(const std::vector<std::string>& variables = {}) : child_({"sharer"}, variables) {}

  Heard expose(const std::string& what) {
    child_.say(what);
    std::istringstream line(child_.hear());
    Heard heard;
    std::size_t unmaps = 0;
    line >> unmaps;
    heard.unmap.resize(unmaps);
    for (RegionId& region : heard.unmap) line >> region;
    line >> heard.region >> heard.offset;
    if (std::string text; line >> text) heard.description = from_text<RegionDescription>(text);
    return heard;
  }
  std::string ask(const std::string& what) {
    child_.say(what);
    return child_.hear();
  }
  void end() {
    child_.say("end");
    const auto ended = child_.wait();
    CHECK(ended.error.empty());
    CHECK(ended.status == 0);
  }
  Child& child() { return child_; }

 private:
  Child child_;
};

}  // namespace

TEST_CASE("two processes see one memory", "[cuda][import_table]") {
  const DeviceUnderTest device;
  Sharer sharer;
  const Heard heard = sharer.expose("new 3145728 17");
  REQUIRE(heard.description);
  CHECK(heard.offset == 100);
  {
    ImportTable table(device.context, kPeer);
    table.announce(*heard.description);
    CHECK(table.mapped() == 0);
    const auto use = table.use(heard.region, heard.offset, 3145728 - 100);
    REQUIRE(use);
    CHECK(table.mapped() == 1);
    CHECK(device.holds(use->address(), 3145728 - 100, std::byte{17}));
    device.fill(use->address(), 3145728 - 100, std::byte{18});
    const auto again = table.use(heard.region, 0, 1);
    REQUIRE(again);
    CHECK(again->address() + 100 == use->address());
    CHECK(device.holds(again->address(), 100, std::byte{17}));
  }
  CHECK(sharer.ask("last byte") == "18");
  sharer.end();
}

TEST_CASE("a region that its owner ends is due when its last use is over, and then closed when its user says",
          "[cuda][import_table]") {
  const DeviceUnderTest device;
  Sharer sharer;
  const Heard heard = sharer.expose("new 2097152 1");
  {
    ImportTable table(device.context, kPeer);
    table.announce(*heard.description);
    std::optional<ImportTable::Use> use = table.use(heard.region, 0, 10);
    std::optional<ImportTable::Use> other = table.use(heard.region, 0, 10);
    CHECK(sharer.ask("retire") == std::to_string(heard.region));
    table.unmap(heard.region);
    CHECK(table.take_closed().empty());
    CHECK_THROWS_AS(table.use(heard.region, 0, 10), RegionError);
    use = std::move(other);
    CHECK(table.take_closed().empty());
    table.close_due();
    CHECK(device.holds(use->address(), 10, std::byte{1}));
    CHECK(!table.has_due());
    use.reset();
    CHECK(table.has_due());
    CHECK(table.take_closed().empty());
    CHECK(table.mapped() == 1);
    table.close_due();
    CHECK(!table.has_due());
    CHECK(table.take_closed() == std::vector{heard.region});
    CHECK(table.take_closed().empty());
    CHECK(table.mapped() == 0);
    CHECK(sharer.ask("closed " + std::to_string(heard.region)) == "free");
  }
  sharer.end();
}

TEST_CASE("an address that its owner uses anew is mapped anew, after the old region is closed",
          "[cuda][import_table]") {
  const DeviceUnderTest device;
  // The owner frees what another process still maps, as users of plain cudaMalloc do.
  Sharer sharer({"FAKECUDA_STRICT=0"});
  const Heard first = sharer.expose("new 2097152 1");
  ImportTable table(device.context, kPeer);
  table.announce(*first.description);
  std::optional<ImportTable::Use> use = table.use(first.region, 0, 2097152);
  CHECK(device.holds(use->address(), 2097152, std::byte{1}));

  const Heard second = sharer.expose("renew 2");
  CHECK(second.region != first.region);
  if (is_stand_in()) {
    REQUIRE(second.description->base == first.description->base);
    // What the order of messages spares everybody.
    const Current current(device.context);
    Address address = 0;
    CHECK(device.driver().cuIpcOpenMemHandle(&address, second.description->handle, kIpcLazyPeerAccess) ==
          Result::already_mapped);
  }
  if (second.description->base == first.description->base) {
    CHECK(second.unmap == std::vector{first.region});
    table.unmap(first.region);
    table.announce(*second.description);
    CHECK(!table.use(second.region, 0, 10));
    use.reset();
    CHECK(!table.use(second.region, 0, 10));
    table.close_due();
    CHECK(table.take_closed() == std::vector{first.region});
  } else {
    table.announce(*second.description);
  }
  use = table.use(second.region, 0, 2097152);
  REQUIRE(use);
  CHECK(device.holds(use->address(), 2097152, std::byte{2}));
  use.reset();
  table.unmap(second.region);
  sharer.end();
}

TEST_CASE("what nobody uses is closed to make room, what was used last at last, and comes again",
          "[cuda][import_table]") {
  const DeviceUnderTest device;
  Sharer sharer, other;
  const Heard first = sharer.expose("more 2097152 1"), second = sharer.expose("more 2097152 2");
  const Heard third = other.expose("more 2097152 3");
  {
    ImportTable table(device.context, kPeer), others(device.context, kPeer + 1);
    table.announce(*first.description);
    table.announce(*second.description);
    others.announce(*third.description);
    CHECK(!table.idle_since());
    table.close_idle();
    std::optional<ImportTable::Use> use = table.use(first.region, 0, 10);
    (void)table.use(second.region, 0, 10);
    (void)others.use(third.region, 0, 10);
    // The first was mapped first, and is in use; then it is the last that was used.
    REQUIRE(table.idle_since());
    CHECK(*table.idle_since() < *others.idle_since());
    use.reset();
    CHECK(*table.idle_since() < *others.idle_since());
    table.close_idle();
    CHECK(*others.idle_since() < *table.idle_since());
    CHECK(table.mapped() == 1);
    (void)table.use(first.region, 0, 10);
    CHECK(table.mapped() == 1);
    use = table.use(second.region, 0, 10);
    CHECK(table.mapped() == 2);
    CHECK(device.holds(use->address(), 10, std::byte{2}));
    // What is in use stays.
    table.close_idle();
    table.close_idle();
    CHECK(!table.idle_since());
    CHECK(table.mapped() == 1);
    CHECK(device.holds(use->address(), 10, std::byte{2}));
    // What has been closed can be ended.
    table.unmap(first.region);
    CHECK(table.take_closed() == std::vector{first.region});
  }
  other.end();
  sharer.end();
}

TEST_CASE("of what nobody uses only so much is kept, what was used last", "[cuda][import_table]") {
  const DeviceUnderTest device;
  Sharer sharer;
  std::vector<Heard> heard;
  for (const char* what : {"more 2097152 1", "more 2097152 2", "more 2097152 3"}) heard.push_back(sharer.expose(what));
  {
    constexpr std::size_t kMost = 2;
    ImportTable table(device.context, kPeer, kMost);
    for (const Heard& one : heard) table.announce(*one.description);
    const auto use = [&](std::size_t which) { return table.use(heard[which].region, 0, 10); };
    const auto holds = [&](const std::optional<ImportTable::Use>& used, int content) {
      return device.holds(used->address(), 10, static_cast<std::byte>(content));
    };
    // What is in use does not count.
    {
      const auto first = use(0), second = use(1), third = use(2);
      table.close_due();
      CHECK(table.mapped() == 3);
    }
    CHECK(table.has_due());
    CHECK(table.mapped() == 3);
    table.close_due();
    CHECK(table.mapped() == kMost);
    for (int round = 0; round < 3; ++round) {
      for (const std::size_t which : {0, 1, 2}) {
        CHECK(holds(use(which), static_cast<int>(which) + 1));
        table.close_due();
        CHECK(table.mapped() == kMost);
      }
    }
    // The first is the one that was closed: what was not is due, as it is.
    for (const std::size_t which : {1, 2}) table.unmap(heard[which].region);
    table.close_due();
    CHECK(table.mapped() == 0);
    CHECK(holds(use(0), 1));
    CHECK(table.mapped() == 1);
  }
  sharer.end();
}

TEST_CASE("a region that was never used is closed without having been mapped", "[cuda][import_table]") {
  const DeviceUnderTest device;
  Sharer sharer;
  const Heard heard = sharer.expose("new 2097152 1");
  {
    ImportTable table(device.context, kPeer);
    table.announce(*heard.description);
    table.unmap(heard.region);
    CHECK(table.take_closed() == std::vector{heard.region});
  }
  sharer.end();
}

TEST_CASE("what a peer cannot mean is an error", "[cuda][import_table]") {
  const DeviceUnderTest device;
  Sharer sharer;
  const Heard heard = sharer.expose("new 2097152 1");
  {
    ImportTable table(device.context, kPeer);
    CHECK_THROWS_AS(table.use(heard.region, 0, 1), RegionError);
    CHECK_THROWS_AS(table.unmap(heard.region), RegionError);
    table.announce(*heard.description);
    CHECK_THROWS_AS(table.announce(*heard.description), RegionError);
    CHECK_THROWS_AS(table.use(heard.region, 2097152, 1), RegionError);
    CHECK_THROWS_AS(table.use(heard.region, 1, 2097152), RegionError);
    CHECK_THROWS_AS(table.use(heard.region, ~std::uint64_t{0}, 2), RegionError);
    CHECK(table.use(heard.region, 2097152, 0));

    RegionDescription other = *heard.description;
    other.id += 1;
    table.announce(other);
    CHECK_THROWS_AS(table.use(other.id, 0, 1), RegionError);  // at the same place, and the first has not ended
    RegionDescription endless = *heard.description;
    endless.id += 2;
    endless.bytes = ~std::uint64_t{0};
    CHECK_THROWS_AS(table.announce(endless), RegionError);
  }
  sharer.end();
}

TEST_CASE("memory of a process that is gone cannot be mapped, and the error names the peer", "[cuda][import_table]") {
  const DeviceUnderTest device;
  Sharer sharer;
  const Heard heard = sharer.expose("new 2097152 1");
  sharer.child().kill();
  CHECK(sharer.child().wait().status == 128 + 9);
  ImportTable table(device.context, kPeer);
  table.announce(*heard.description);
  try {
    table.use(heard.region, 0, 1);
    FAIL("no error");
  } catch (const CudaError& error) {
    CHECK(error.call() == "cuIpcOpenMemHandle_v2");
    CHECK(error.peer() == kPeer);
    CHECK(error.bytes() == 2097152);
  }
  CHECK(table.mapped() == 0);
  table.unmap(heard.region);
  CHECK(table.take_closed() == std::vector{heard.region});
}

TEST_CASE("a process does not map its own memory by handle", "[cuda][import_table]") {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, 2097152);
  RegionDescription region{.id = 1, .base = memory.address(), .bytes = memory.bytes(), .handle = {}};
  const Current current(device.context);
  device.driver().must(device.driver().cuIpcGetMemHandle, &region.handle, memory.address());
  ImportTable table(device.context, kPeer);
  table.announce(region);
  CHECK_THROWS_AS(table.use(1, 0, 1), CudaError);
}

TEST_CASE("a device that does not reach the memory cannot map it", "[cuda][import_table][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  DeviceMemory memory(device.context, 2097152);
  RegionDescription region{.id = 1, .base = memory.address(), .bytes = memory.bytes(), .handle = {}};
  {
    const Current current(device.context);
    device.driver().must(device.driver().cuIpcGetMemHandle, &region.handle, memory.address());
  }
  for (const auto& [peers, wanted] : {std::pair{"none",
                                                "cuIpcOpenMemHandle_v2: got CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "
                                                "(217): peer access is not supported, rank 0, 2097152 bytes"},
                                      std::pair{"0-1", "mapped"}}) {
    Child child({"map_on_second", to_text(region)}, {"FAKECUDA_DEVICES=2", std::string("FAKECUDA_PEERS=") + peers});
    CHECK(child.hear() == wanted);
    CHECK(child.wait().status == 0);
  }
}
