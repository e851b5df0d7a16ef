#include "cuda/context.hpp"

#include <array>
#include <thread>

#include "cuda/device.hpp"
#include "tests/cuda/child.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;

namespace {

ContextHandle current_context() {
  ContextHandle context = nullptr;
  driver_under_test().must(driver_under_test().cuCtxGetCurrent, &context);
  return context;
}

}  // namespace

TEST_CASE("devices have a name, a number of multiprocessors and an identity", "[cuda][context]") {
  const Driver& driver = driver_under_test();
  const auto found = devices(driver);
  REQUIRE(!found.empty());
  CHECK(!found[0].name.empty());
  CHECK(found[0].multiprocessors > 0);
  CHECK(find_device(driver, found[0].uuid) == found[0].device);
  CHECK(find_device(driver, Uuid{{'n', 'o', 'n', 'e'}}) == std::nullopt);
  CHECK(reaches(driver, found[0].device, found[0].device));
}

TEST_CASE("a context is current as long as it is wanted, and then what was before", "[cuda][context]") {
  const Driver& driver = driver_under_test();
  const PrimaryContext context(driver, 0);
  const PrimaryContext again(driver, 0);
  CHECK(context.handle() == again.handle());
  CHECK(current_context() == nullptr);
  {
    const Current outer(context);
    CHECK(current_context() == context.handle());
    {
      const Current inner(again);
      CHECK(current_context() == context.handle());
    }
    CHECK(current_context() == context.handle());
    ContextHandle elsewhere = context.handle();
    std::thread([&] { elsewhere = current_context(); }).join();
    CHECK(elsewhere == nullptr);
  }
  CHECK(current_context() == nullptr);
}

TEST_CASE("within another of the same context a Current calls nothing", "[cuda][context]") {
  static int pushed = 0;
  static int popped = 0;
  pushed = popped = 0;
  Driver counted = driver_under_test();
  counted.cuCtxPushCurrent.function = +[](ContextHandle context) {
    ++pushed;
    return driver_under_test().cuCtxPushCurrent(context);
  };
  counted.cuCtxPopCurrent.function = +[](ContextHandle* context) {
    ++popped;
    return driver_under_test().cuCtxPopCurrent(context);
  };
  const PrimaryContext context(counted, 0);
  const Stream stream(context);
  pushed = popped = 0;
  for (int time = 1; time <= 2; ++time) {
    {
      const Current outer(context);
      CHECK(stream.idle());
      const Current inner(context, std::nothrow);
      CHECK(inner);
      CHECK(popped == time - 1);
    }
    CHECK(current_context() == nullptr);
    CHECK(pushed == time);
    CHECK(popped == time);
  }
}

TEST_CASE("as long as a context is current the thread minds no captures", "[cuda][context]") {
  const Driver& driver = driver_under_test();
  const PrimaryContext context(driver, 0);
  CaptureMode before = CaptureMode::own;
  driver.must(driver.cuThreadExchangeStreamCaptureMode, &before);
  {
    const Current current(context);
    CaptureMode mode = CaptureMode::relaxed;
    driver.must(driver.cuThreadExchangeStreamCaptureMode, &mode);
    CHECK(mode == CaptureMode::relaxed);
  }
  driver.must(driver.cuThreadExchangeStreamCaptureMode, &before);
  CHECK(before == CaptureMode::own);
}

TEST_CASE("without a current context the driver refuses", "[cuda][context]") {
  const Driver& driver = driver_under_test();
  const PrimaryContext context(driver, 0);
  Address address = 0;
  CHECK(driver.cuMemAlloc(&address, 1024) == Result::invalid_context);
}

TEST_CASE("what exists already is not touched without a current context, either", "[cuda][context][stand-in]") {
  if (!is_stand_in()) return;  // a driver may let some of it pass
  const DeviceUnderTest device;
  const Driver& driver = device.driver();
  const DeviceMemory memory(device.context, 64);
  const Address address = memory.address();
  const StreamHandle stream = device.stream.handle();
  std::array<std::byte, 64> host{};
  void* const data = host.data();
  CaptureStatus status{};
  IpcMemoryHandle handle{};
  EventHandle event = nullptr;
  {
    const Current current(device.context);
    driver.must(driver.cuEventCreate, &event, kEventDisableTiming);
  }
  CHECK(driver.cuMemcpyDtoDAsync(address, address + 32, 32, stream) == Result::invalid_context);
  CHECK(driver.cuMemcpyHtoDAsync(address, data, 64, stream) == Result::invalid_context);
  CHECK(driver.cuMemcpyDtoHAsync(data, address, 64, stream) == Result::invalid_context);
  CHECK(driver.cuMemsetD8Async(address, 0, 64, stream) == Result::invalid_context);
  CHECK(driver.cuStreamQuery(stream) == Result::invalid_context);
  CHECK(driver.cuStreamSynchronize(stream) == Result::invalid_context);
  CHECK(driver.cuStreamIsCapturing(stream, &status) == Result::invalid_context);
  CHECK(driver.cuIpcGetMemHandle(&handle, address) == Result::invalid_context);
  CHECK(driver.cuStreamDestroy(stream) == Result::invalid_context);
  CHECK(driver.cuEventDestroy(event) == Result::invalid_context);
  const Current current(device.context);
  driver.must(driver.cuEventDestroy, event);
  ModuleHandle module = nullptr;
  driver.must(driver.cuModuleLoadData, &module, static_cast<const void*>(test_image().data()));
  FunctionHandle function = nullptr;
  ContextHandle context = nullptr;
  driver.must(driver.cuCtxPopCurrent, &context);
  CHECK(driver.cuModuleGetFunction(&function, module, "rondo_float_sum") == Result::invalid_context);
  driver.must(driver.cuCtxPushCurrent, context);
  driver.must(driver.cuModuleUnload, module);
}

TEST_CASE("a stream does what is queued in order, and says when it is idle", "[cuda][context]") {
  const DeviceUnderTest device;
  constexpr std::size_t kBytes = 1 << 20;
  const DeviceMemory memory(device.context, kBytes);
  std::vector<std::byte> first(kBytes, std::byte{1});
  std::vector<std::byte> second(kBytes, std::byte{2});
  std::vector<std::byte> back(kBytes);
  device.write(memory.address(), first);
  device.write(memory.address(), second);
  device.read(memory.address(), back);
  device.stream.synchronize();
  CHECK(device.stream.idle());
  CHECK(back == second);
}

TEST_CASE("a stream with work to do is not idle", "[cuda][context]") {
  const DeviceUnderTest device;
  HeldStream held(device);
  CHECK(!device.stream.idle());
  held.let_go();
  device.stream.synchronize();
  CHECK(device.stream.idle());
}

TEST_CASE("a stream makes no graph, and memory that is set has its value", "[cuda][context]") {
  const DeviceUnderTest device;
  const Driver& driver = device.driver();
  CaptureStatus status = CaptureStatus::active;
  const Current current(device.context);
  driver.must(driver.cuStreamIsCapturing, device.stream.handle(), &status);
  CHECK(status == CaptureStatus::none);
  const DeviceMemory memory(device.context, 4096);
  device.fill(memory.address(), 4096, std::byte{1});
  driver.must(driver.cuMemsetD8Async, memory.address() + 100, static_cast<unsigned char>(2), std::size_t{1000},
              device.stream.handle());
  CHECK(device.holds(memory.address() + 100, 1000, std::byte{2}));
  CHECK(device.holds(memory.address() + 1100, 1000, std::byte{1}));
}

TEST_CASE("allocated memory is no longer free", "[cuda][context][stand-in]") {
  if (!is_stand_in()) return;  // other processes have memory of a real device, too
  const DeviceUnderTest device;
  const Driver& driver = device.driver();
  const auto free_bytes = [&] {
    const Current current(device.context);
    std::size_t free = 0;
    std::size_t total = 0;
    driver.must(driver.cuMemGetInfo, &free, &total);
    CHECK(free <= total);
    return free;
  };
  const std::size_t before = free_bytes();
  const DeviceMemory memory(device.context, 64 << 20);
  CHECK(free_bytes() + (64 << 20) <= before);
}

TEST_CASE("the time between two events that are done is known", "[cuda][context]") {
  const DeviceUnderTest device;
  const Driver& driver = device.driver();
  const DeviceMemory memory(device.context, 1 << 20);
  const Current current(device.context);
  EventHandle first = nullptr;
  EventHandle last = nullptr;
  EventHandle untimed = nullptr;
  driver.must(driver.cuEventCreate, &first, 0U);
  driver.must(driver.cuEventCreate, &last, 0U);
  driver.must(driver.cuEventCreate, &untimed, kEventDisableTiming);
  float milliseconds = -1;
  CHECK(driver.cuEventElapsedTime(&milliseconds, first, last) == Result::invalid_handle);
  for (const EventHandle event : {first, untimed, last}) {
    driver.must(driver.cuEventRecord, event, device.stream.handle());
    device.fill(memory.address(), 1 << 20, std::byte{1});
  }
  CHECK(driver.cuEventElapsedTime(&milliseconds, first, last) == Result::success);
  CHECK(milliseconds > 0);
  CHECK(driver.cuEventElapsedTime(&milliseconds, first, untimed) == Result::invalid_handle);
  for (const EventHandle event : {first, untimed, last}) driver.cuEventDestroy(event);
}

TEST_CASE("several devices reach those that the machine says", "[cuda][context][stand-in]") {
  if (!is_stand_in()) return;
  Child child({"reach"}, {"FAKECUDA_DEVICES=3", "FAKECUDA_PEERS=0-1"});
  CHECK(child.hear() == "110 110 001");
  CHECK(child.wait().status == 0);
}
