#include "cuda/staging.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/cuda/child.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;

TEST_CASE("copies go through a block and back", "[cuda][staging]") {
  const DeviceUnderTest device;
  Staging staging(device.context);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{1} << 20}) {
    INFO(bytes);
    const DeviceMemory memory(device.context, bytes);
    const Staging::Block out = staging.take(bytes);
    const Staging::Block back = staging.take(bytes);
    REQUIRE(out.size() == bytes);
    CHECK(out.pinned());
    std::fill_n(out.data(), bytes, std::byte{7});
    std::fill_n(back.data(), bytes, std::byte{0});
    device.write(memory.address(), {out.data(), bytes});
    device.read(memory.address(), {back.data(), bytes});
    device.stream.synchronize();
    CHECK(std::equal(out.data(), out.data() + bytes, back.data()));
  }
}

TEST_CASE("a block that was given back is used again for what fits, and no block has two users", "[cuda][staging]") {
  const DeviceUnderTest device;
  Staging staging(device.context);
  std::optional<Staging::Block> first(staging.take(5000));
  const std::byte* const place = first->data();
  CHECK(staging.take(8192).data() != place);
  CHECK(staging.free_bytes() == 8192);
  first.reset();
  CHECK(staging.free_bytes() == 2 * 8192);
  {
    const Staging::Block smaller = staging.take(4096);
    const Staging::Block larger = staging.take(8193);
    CHECK(smaller.data() != place);
    CHECK(larger.data() != place);
    CHECK(staging.free_bytes() == 2 * 8192);
    const Staging::Block again = staging.take(8192);
    const Staging::Block other = staging.take(4097);
    CHECK(again.data() == place);
    CHECK(other.data() != place);
    CHECK(staging.free_bytes() == 0);
  }
  CHECK(staging.free_bytes() == 2 * 8192 + 4096 + 16384);
  CHECK(staging.take(0).size() == 0);
}

TEST_CASE("a block that was moved from gives nothing back", "[cuda][staging]") {
  const DeviceUnderTest device;
  Staging staging(device.context);
  {
    Staging::Block first = staging.take(4096);
    std::byte* const place = first.data();
    const Staging::Block second = std::move(first);
    CHECK(second.data() == place);
    Staging::Block third = staging.take(4096);
    third = staging.take(8192);
    CHECK(third.size() == 8192);
    CHECK(staging.free_bytes() == 4096);
  }
  CHECK(staging.free_bytes() == 2 * 4096 + 8192);
}

TEST_CASE("all is kept that was in use at the same time, but for what is too long", "[cuda][staging]") {
  const DeviceUnderTest device;
  constexpr std::size_t kLongest = 16384;
  Staging staging(device.context, kLongest);
  {
    std::vector<Staging::Block> blocks;
    for (int i = 0; i < 5; ++i) blocks.push_back(staging.take(kLongest));
    CHECK(staging.free_bytes() == 0);
  }
  CHECK(staging.free_bytes() == 5 * kLongest);
  staging.take(kLongest + 1);
  staging.take(2 * kLongest);
  CHECK(staging.free_bytes() == 5 * kLongest);
}

TEST_CASE("where nothing can be pinned ordinary memory is handed out, and pinning is tried anew",
          "[cuda][staging][stand-in]") {
  if (!is_stand_in()) return;
  const std::string code = GENERATE("2", "700");
  Child child({"stage"}, {"FAKECUDA_FAIL=cuMemHostAlloc:1:" + code});
  CHECK(child.hear() == "ordinary");
  CHECK(child.hear() == "pinned");
  const auto ended = child.wait();
  CHECK(ended.error.empty());
  CHECK(ended.status == 0);
}
