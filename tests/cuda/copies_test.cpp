#include "cuda/copies.hpp"

#include <array>
#include <memory>
#include <optional>
#include <set>

#include "cuda/staging.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/support/catch.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;

namespace {

bool fails = false;
Result query_or_fail(EventHandle event) { return fails ? Result{700} : driver_under_test().cuEventQuery(event); }

bool refuses = false;
int records = 0;
Result record_or_refuse(EventHandle event, StreamHandle stream) {
  ++records;
  return refuses ? Result{2} : driver_under_test().cuEventRecord(event, stream);
}

int plain_copies = 0;
Result count_plain(Address to, const void* from, std::size_t bytes, StreamHandle stream) {
  ++plain_copies;
  return driver_under_test().cuMemcpyHtoDAsync(to, from, bytes, stream);
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
    running = copies.start(copy_with([this, held = bytes](const std::exception_ptr& failure) { error = failure; }));
    fails = false;
    copies.poll();
    copies.stream();  // an event says when the copy is over
    fails = true;
    copies.poll();
  }
  ~FailedCopy() {
    hold.let_go();
    CHECK(copies.stop());
    const Current current(device.context);
    device.driver().cuEventDestroy(let_go);
  }
  Copies::Copy copy_with(std::function<void(std::exception_ptr)> ended) const {
    Copies::Copy copy;
    copy.to_host = bytes->data();
    copy.from = memory.address();
    copy.bytes = bytes->size();
    copy.ended = std::move(ended);
    return copy;
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
  Staging staging{context};
  std::shared_ptr<Staging::Block> bytes = std::make_shared<Staging::Block>(staging.take(64));
  std::shared_ptr<Copies::Running> running;
  std::optional<std::exception_ptr> error;
};

/// Copies that nobody finds ready, behind a stream that is held up and has yet to write what they read.
class FollowingCopies {
 public:
  static constexpr std::size_t kMost = Copies::kMostLanes + 1;

  FollowingCopies() {
    device.fill(memory.address(), 64, std::byte{0});
    device.fill(late.address(), 64, std::byte{1});
    held.emplace(device);
    device.copy(memory.address(), late.address(), 64);
    const Current current(device.context);
    let_go = events.record(device.stream.handle());
  }

  std::shared_ptr<Copies::Running> start(std::size_t bytes) {
    Copies::Copy copy;
    copy.to = there.address() + 64 * started++;
    copy.from = memory.address();
    copy.bytes = bytes;
    copy.ready = [] { return false; };
    copy.follow = [this](StreamHandle stream) {
      if (!can) return false;
      followed = stream;
      // What has been there before does not wait.
      CHECK(device.driver().cuStreamQuery(stream) == Result::success);
      device.driver().must(device.driver().cuStreamWaitEvent, stream, let_go, 0U);
      return true;
    };
    copy.given_up = [this] { return given_up; };
    copy.ended = [this](const std::exception_ptr& failure) { over += failure ? 100 : 1; };
    return copies.start(std::move(copy));
  }

  DeviceUnderTest device;
  DeviceMemory memory{device.context, 64}, late{device.context, 64}, there{device.context, 64 * kMost};
  LocalEvents events{device.context};
  Copies copies{device.context, events};
  std::optional<HeldStream> held;
  bool can = false, given_up = false;
  int over = 0;
  StreamHandle followed = nullptr;

 private:
  EventHandle let_go = nullptr;
  std::size_t started = 0;
};

}  // namespace

TEST_CASE("short copies from the host are of rows, and copy what there is to copy", "[cuda][copies]") {
  const DeviceUnderTest device;
  constexpr std::size_t kMost = 32 << 10;
  const DeviceMemory memory(device.context, kMost + 2);
  Staging staging(device.context);
  const auto block = staging.take(kMost);
  for (std::size_t i = 0; i < kMost; ++i) block.data()[i] = static_cast<std::byte>(i % 251 + 1);
  Driver driver = driver_under_test();
  driver.cuMemcpyHtoDAsync.function = count_plain;
  plain_copies = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{8}, kMost - 1, kMost}) {
    device.fill(memory.address(), kMost + 2, std::byte{0});
    {
      const Current current(device.context);
      queue_from_host(driver, {}, memory.address() + 1, block.data(), bytes, device.stream.handle());
    }
    auto wanted = std::vector<std::byte>(kMost + 2);
    std::copy_n(block.data(), bytes, wanted.begin() + 1);
    CHECK(device.content(memory.address(), kMost + 2) == wanted);
  }
  CHECK(plain_copies == 2);  // the shortest, which has no two rows, and the longest
}

TEST_CASE("a stream at rest needs no event, unless it waits for the default one", "[cuda][copies]") {
  const DeviceUnderTest device;
  LocalEvents events(device.context);
  const Current current(device.context);
  StreamHandle blocking = nullptr;
  device.driver().must(device.driver().cuStreamCreateWithPriority, &blocking, 0U, 0);
  CHECK(events.record_unless_at_rest(device.stream.handle()) == nullptr);
  CHECK(events.done(nullptr));
  for (const StreamHandle stream : {blocking, StreamHandle{}}) {
    const EventHandle event = events.record_unless_at_rest(stream);
    CHECK(event != nullptr);
    events.give_back(event);
  }
  {
    HeldStream held(device);
    const EventHandle event = events.record_unless_at_rest(device.stream.handle());
    REQUIRE(event != nullptr);
    CHECK(!events.done(event));
    held.let_go();
    while (!events.done(event)) continue;
  }
  device.driver().must(device.driver().cuStreamDestroy, blocking);
}

TEST_CASE("an event is recorded of a copy only where another comes behind it", "[cuda][copies]") {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, 64);
  Driver driver = driver_under_test();
  driver.cuEventRecord.function = record_or_refuse;
  records = 0;
  const PrimaryContext context(driver, 0);
  LocalEvents events(context);
  Copies copies(context, events);
  Staging staging(context);
  const auto block = staging.take(64);
  int over = 0;
  const auto start = [&] {
    Copies::Copy copy;
    copy.to_host = block.data();
    copy.from = memory.address();
    copy.bytes = 64;
    copy.ended = [&](const std::exception_ptr&) { ++over; };
    return copies.start(std::move(copy));
  };
  start();
  while (over < 1) copies.poll();
  CHECK(records == 0);

  std::optional<HeldStream> held;
  {
    const Current current(context);
    held.emplace(device);
    const EventHandle let_go = events.record(device.stream.handle());
    driver.must(driver.cuStreamWaitEvent, copies.stream(), let_go, 0U);
  }
  records = 0;
  const auto first = start(), second = start();
  copies.poll();
  CHECK(records == 1);  // of the first, by the second
  CHECK(over == 1);
  CHECK(copies.order(*second, device.stream.handle()));
  CHECK(records == 2);
  copies.mark([&](const std::exception_ptr&) { ++over; });
  CHECK(records == 2);
  held->let_go();
  while (over < 4) copies.poll();
  CHECK(copies.idle());
}

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
  const DeviceUnderTest behind;
  FollowingCopies test;
  Copies& copies = test.copies;
  const auto copy = test.start(64), none = test.start(0);
  CHECK(!copies.order(*copy, behind.stream.handle()));
  test.can = test.given_up = true;
  CHECK(!copies.order(*copy, behind.stream.handle()));
  test.given_up = false;
  CHECK(copies.order(*copy, behind.stream.handle()));
  CHECK(copies.stream_of(*copy) == test.followed);
  CHECK(test.followed != copies.stream());
  copies.poll();
  CHECK(test.over == 0);
  CHECK(!behind.stream.idle());
  CHECK(!copies.hasten(*none));
  copies.poll();
  CHECK(test.over == 1);
  const StreamHandle waits_still = test.followed;
  const auto next = test.start(64);
  CHECK(copies.hasten(*next));
  CHECK(copies.stream_of(*next) != waits_still);
  test.held->let_go();
  CHECK(behind.holds(test.there.address(), 64, std::byte{1}));
  while (test.over < 3) copies.poll();
  CHECK(copies.idle());
}

TEST_CASE("copies that the device waits for have streams of their own, of which there are so many", "[cuda][copies]") {
  FollowingCopies test;
  Copies& copies = test.copies;
  test.can = true;
  std::set<StreamHandle> streams{copies.stream()};
  for (std::size_t i = 0; i < Copies::kMostLanes; ++i) {
    const auto copy = test.start(64);
    CHECK(copies.hasten(*copy));
    CHECK(streams.insert(copies.stream_of(*copy)).second);
  }
  const auto last = test.start(64);
  CHECK(!copies.hasten(*last));
  test.held->let_go();
  // A stream may come to its end a little after the last of its copies.
  while (!copies.hasten(*last)) copies.poll();
  CHECK(!streams.insert(copies.stream_of(*last)).second);
  while (!copies.idle()) copies.poll();
  CHECK(test.over == static_cast<int>(Copies::kMostLanes) + 1);
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
  test.copies.start(test.copy_with([](const std::exception_ptr&) {}));
  test.copies.poll();  // queues it
  refuses = true;
  CHECK_THROWS_AS(test.copies.mark([held](const std::exception_ptr&) {}), CudaError);
  refuses = false;
  test.copies.poll();
  CHECK(held.use_count() == 2);
  test.hold.let_go();
  while (!test.copies.idle()) test.copies.poll();
  CHECK(held.use_count() == 1);
}
