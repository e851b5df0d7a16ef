#include "cuda/pointer.hpp"

#include <vector>

#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/virtual_memory.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;
using Catch::Matchers::ContainsSubstring;
using Kind = PointerFacts::Kind;

namespace {

constexpr std::size_t kBytes = 3 << 20;

}  // namespace

TEST_CASE("an address in device memory is classified by the whole allocation", "[cuda][pointer]") {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  const Current current(device.context);
  for (const Address offset : {Address{0}, Address{1}, Address{kBytes - 1}}) {
    const PointerFacts facts = classify(device.driver(), memory.address() + offset);
    CHECK(facts.kind == Kind::device);
    CHECK(facts.device == device.context.device());
    CHECK(facts.base == memory.address());
    CHECK(facts.bytes == kBytes);
    CHECK(facts.exportable);
    CHECK(facts.why_not.empty());
  }
}

TEST_CASE("what the host allocated is the host's", "[cuda][pointer]") {
  const DeviceUnderTest device;
  const Current current(device.context);
  const std::vector<std::byte> memory(64);
  CHECK(classify(device.driver(), reinterpret_cast<Address>(memory.data())).kind == Kind::host);
}

TEST_CASE("memory is classified where no context is current", "[cuda][pointer]") {
  const Driver& driver = driver_under_test();
  const std::vector<std::byte> of_host(64);
  const auto host = reinterpret_cast<Address>(of_host.data());
  CHECK(classify_anywhere(driver, host).kind == Kind::host);

  int devices = 0;
  driver.must(driver.cuDeviceGetCount, &devices);
  const DeviceUnderTest device(devices - 1);
  const DeviceMemory memory(device.context, kBytes);
  const PointerFacts facts = classify_anywhere(driver, memory.address());
  CHECK(facts.kind == Kind::device);
  CHECK(facts.device == devices - 1);
  CHECK(classify_anywhere(driver, host).kind == Kind::host);

  const Current current(device.context);
  CHECK(classify_anywhere(driver, memory.address()).base == facts.base);
}

TEST_CASE("memory at an address that was freed and allocated again is another buffer", "[cuda][pointer]") {
  const DeviceUnderTest device;
  DeviceMemory first(device.context, kBytes);
  const PointerFacts before = first.facts();
  first.free();
  const DeviceMemory second(device.context, kBytes);
  const PointerFacts after = second.facts();
  if (is_stand_in()) REQUIRE(after.base == before.base);
  CHECK(after.buffer_id != before.buffer_id);
}

TEST_CASE("memory of a pool is the device's, and cannot be exported", "[cuda][pointer]") {
  const DeviceUnderTest device;
  const Driver& driver = device.driver();
  const Current current(device.context);
  Address address = 0;
  REQUIRE(driver_function<Result(Address*, std::size_t, StreamHandle)>("cuMemAllocAsync")(
              &address, kBytes, device.stream.handle()) == Result::success);
  device.stream.synchronize();
  const PointerFacts facts = classify(driver, address);
  CHECK(facts.kind == Kind::device);
  CHECK(!facts.exportable);
  CHECK_THAT(facts.why_not, ContainsSubstring("memory pool"));
  IpcMemoryHandle handle{};
  CHECK(driver.cuIpcGetMemHandle(&handle, address) == Result::invalid_value);
  CHECK(driver_function<Result(Address, StreamHandle)>("cuMemFreeAsync")(address, device.stream.handle()) ==
        Result::success);
}

TEST_CASE("memory that was mapped by itself is the device's, and cannot be exported", "[cuda][pointer]") {
  const DeviceUnderTest device;
  const Current current(device.context);
  const VirtualMemory memory(device.context.device(), kBytes);
  const PointerFacts facts = classify(device.driver(), memory.address());
  CHECK(facts.kind == Kind::device);
  CHECK(!facts.exportable);
  CHECK_THAT(facts.why_not, ContainsSubstring("cuMemCreate, perhaps"));
  IpcMemoryHandle handle{};
  CHECK(device.driver().cuIpcGetMemHandle(&handle, memory.address()) == Result::invalid_value);
  device.fill(memory.address(), kBytes, std::byte{7});
  CHECK(device.holds(memory.address(), kBytes, std::byte{7}));
}

TEST_CASE("managed memory is known as such", "[cuda][pointer]") {
  const DeviceUnderTest device;
  const Current current(device.context);
  constexpr unsigned kGlobal = 1;
  Address address = 0;
  REQUIRE(driver_function<Result(Address*, std::size_t, unsigned)>("cuMemAllocManaged")(&address, kBytes, kGlobal) ==
          Result::success);
  CHECK(classify(device.driver(), address).kind == Kind::managed);
  CHECK(device.driver().cuMemFree(address) == Result::success);
}
