#include "cuda/copies.hpp"

#include <array>
#include <memory>
#include <optional>

#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;

namespace {

bool fails = false;
Result query_or_fail(EventHandle event) { return fails ? Result{700} : driver_under_test().cuEventQuery(event); }

bool refuses = false;
Result record_or_refuse(EventHandle event, StreamHandle stream) {
  return refuses ? Result{2} : driver_under_test().cuEventRecord(event, stream);
}

Driver driver_that_fails() {
  Driver driver = driver_under_test();
  driver.cuEventQuery.function = query_or_fail;
  driver.cuEventRecord.function = record_or_refuse;
  return driver;
}

/// One copy to the host on a stream that is held up, on a device whose state cannot be asked any more.
class FailedCopy {
 public:
  FailedCopy() {
    {
      const Current current(device.context);
      device.driver().must(device.driver().cuEventCreate, &let_go, kEventDisableTiming);
      device.driver().must(device.driver().cuEventRecord, let_go, device.stream.handle());
      device.driver().must(device.driver().cuStreamWaitEvent, copies.stream(), let_go, 0U);
    }
    Copies::Copy copy;
    copy.to_host = bytes->data();
    copy.from = memory.address();
    copy.bytes = bytes->size();
    copy.ended = [this, held = bytes](const std::exception_ptr& failure) { error = failure; };
    running = copies.start(std::move(copy));
    fails = false;
    copies.poll();
    fails = true;
    copies.poll();
  }
  ~FailedCopy() {
    hold.let_go();
    CHECK(copies.stop());
    const Current current(device.context);
    device.driver().cuEventDestroy(let_go);
  }
  /// By who started it and by the copy.
  long users() const { return bytes.use_count(); }

  Driver driver = driver_that_fails();
  PrimaryContext context{driver, 0};
  LocalEvents events{context};
  Copies copies{context, events};
  DeviceUnderTest device;
  DeviceMemory memory{device.context, 64};
  HeldStream hold{device};
  EventHandle let_go = nullptr;
  std::shared_ptr<std::array<std::byte, 64>> bytes = std::make_shared<std::array<std::byte, 64>>();
  std::shared_ptr<Copies::Running> running;
  std::optional<std::exception_ptr> error;
};

}  // namespace

TEST_CASE("a stream can be told to come after a copy once that is queued, and when it is over", "[cuda][copies]") {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, 64);
  LocalEvents events(device.context);
  Copies copies(device.context, events);
  std::array<std::byte, 64> bytes{};
  bool ready = false, over = false;
  Copies::Copy copy;
  copy.to_host = bytes.data();
  copy.from = memory.address();
  copy.bytes = bytes.size();
  copy.ready = [&] { return ready; };
  copy.ended = [&](const std::exception_ptr&) { over = true; };
  const auto running = copies.start(std::move(copy));
  copies.poll();
  CHECK(!copies.order(*running, device.stream.handle()));
  ready = true;
  copies.poll();
  CHECK(copies.order(*running, device.stream.handle()));
  while (!over) copies.poll();
  CHECK(copies.order(*running, device.stream.handle()));
}

TEST_CASE("a stream that is to come after a copy has it queued behind what the device can wait for", "[cuda][copies]") {
  const DeviceUnderTest device, behind;
  const DeviceMemory memory(device.context, 64), there(device.context, 64);
  device.fill(memory.address(), 64, std::byte{1});
  LocalEvents events(device.context);
  Copies copies(device.context, events);
  HeldStream held(device);
  EventHandle let_go = nullptr;
  {
    const Current current(device.context);
    let_go = events.record(device.stream.handle());
  }
  int over = 0;
  bool can = false;
  const auto start = [&](std::size_t bytes) {
    Copies::Copy copy;
    copy.to = there.address();
    copy.from = memory.address();
    copy.bytes = bytes;
    copy.ready = [] { return false; };
    copy.follow = [&](StreamHandle stream) {
      if (can) device.driver().must(device.driver().cuStreamWaitEvent, stream, let_go, 0U);
      return can;
    };
    copy.ended = [&](const std::exception_ptr& failure) { over += failure ? 100 : 1; };
    return copies.start(std::move(copy));
  };
  const auto copy = start(64), none = start(0);
  CHECK(!copies.order(*copy, behind.stream.handle()));
  can = true;
  CHECK(copies.order(*copy, behind.stream.handle()));
  CHECK(copies.stream_of(*copy) != copies.stream());
  copies.poll();
  CHECK(over == 0);
  CHECK(!copies.hasten(*none));
  copies.poll();
  CHECK(over == 1);
  held.let_go();
  CHECK(behind.holds(there.address(), 64, std::byte{1}));
  while (over < 2) copies.poll();
  CHECK(copies.idle());
}

TEST_CASE("a copy that cannot be asked about any more blocks nobody, and is told of when the device is done",
          "[cuda][copies]") {
  FailedCopy test;
  CHECK(!test.error);
  CHECK(!test.copies.idle());
  CHECK(!test.copies.order(*test.running, nullptr));
  test.hold.let_go();
  while (!test.error) test.copies.poll();
  CHECK(!test.copies.order(*test.running, nullptr));
  CHECK_THROWS_AS(std::rethrow_exception(*test.error), CudaError);
  CHECK(test.users() == 1);
  CHECK(test.copies.idle());
}

TEST_CASE("of a device that does not get done its caller hears all the same, and what it may use is held",
          "[cuda][copies]") {
  FailedCopy test;
  while (!test.error) test.copies.poll();
  CHECK(!test.copies.idle());
  CHECK(test.users() == 2);
  test.copies.poll();
  CHECK(test.users() == 2);
  CHECK(!test.copies.stop(std::chrono::nanoseconds(0)));
  test.hold.let_go();
  CHECK(test.copies.stop());
  CHECK(test.users() == 1);
}

TEST_CASE("what its user has queued is held until the device is done, also when the mark behind it is refused",
          "[cuda][copies]") {
  FailedCopy test;
  const auto held = std::make_shared<int>();
  refuses = true;
  CHECK_THROWS_AS(test.copies.mark([held](const std::exception_ptr&) {}), CudaError);
  refuses = false;
  test.copies.poll();
  CHECK(held.use_count() == 2);
  test.hold.let_go();
  while (!test.copies.idle()) test.copies.poll();
  CHECK(held.use_count() == 1);
}
