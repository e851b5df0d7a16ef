// The stand-in is only worth what it finds: each mistake here is made on purpose, by a process that must then end.

#include <fcntl.h>
#include <sys/file.h>

#include <string>
#include <thread>
#include <vector>

#include "cuda/event_pool.hpp"
#include "tests/cuda/child.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/wire_text.hpp"
#include "tests/support/catch.hpp"
#include "transport/descriptor.hpp"

using namespace rondo::cuda;
using namespace rondo::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int kAborted = 128 + 6;

void check_death(Child& child, const std::string& text) {
  const auto ended = child.wait();
  CHECK(ended.status == kAborted);
  CHECK_THAT(ended.error, ContainsSubstring("stand-in driver: ") && ContainsSubstring(text));
}

IpcMemoryHandle handle_of(const DeviceUnderTest& device, const DeviceMemory& memory) {
  const Current current(device.context);
  IpcMemoryHandle handle{};
  device.driver().must(device.driver().cuIpcGetMemHandle, &handle, memory.address());
  return handle;
}

std::string device_file() {
  const std::string library = STAND_IN;
  return library.substr(0, library.rfind('/')) + "/device-0";
}

bool is_taken(const std::string& file) {
  const rondo::detail::Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace

TEST_CASE("mistakes of one process end it, with a word on what they were", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"free_twice", "cuMemFree: no allocation begins at"},
      {"free_inside", "cuMemFree: no allocation begins at"},
      {"copy_from_freed", "cuMemcpyDtoDAsync: 16 bytes at"},
      {"copy_beyond_end", "end behind the 2097152 bytes at"},
      {"kernel_on_freed", "kernel: 64 bytes at"},
      {"stream_after_destroy", "a stream is used after it was destroyed"},
      {"event_after_destroy", "an event is used after it was destroyed"},
      {"wait_before_record", "cuStreamWaitEvent: an event of several processes is waited for before it was recorded"},
      {"leave_memory", "the process ends and leaves 1 allocation(s) on device 0"},
      {"free_host_memory_twice", "cuMemFreeHost: no block begins at"},
      {"memset_beyond_end", "cuMemsetD8Async: 2097153 bytes at"},
      {"leave_event", "the process ends and leaves 1 event(s) on device 0"},
      {"leave_host_memory", "the process ends and leaves 1 host block(s) on device 0"},
      {"leave_stream", "the process ends and leaves 1 stream(s) on device 0"},
      {"leave_module", "the process ends and leaves 1 module(s) on device 0"},
      {"release_with_memory", "cuDevicePrimaryCtxRelease: the last share is given up"},
  };
  for (const auto& [act, text] : mistakes) {
    INFO(act);
    Child child({act});
    check_death(child, text);
  }
}

TEST_CASE("a kernel on memory that its device does not reach ends the process", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  Child child({"kernel_out_of_reach"}, {"FAKECUDA_DEVICES=2", "FAKECUDA_PEERS=none"});
  check_death(child, "kernel: device 1 does not reach the memory of device 0");
  Child reaching({"kernel_out_of_reach"}, {"FAKECUDA_DEVICES=2"});
  CHECK(reaching.wait().status == 0);
}

TEST_CASE("mistakes with what is another's end the process", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, 2097152);
  const std::string handle = to_text(handle_of(device, memory));
  const std::vector<std::pair<std::string, std::string>> mistakes{
      {"close_twice", "cuIpcCloseMemHandle: nothing is open at"},
      {"copy_from_closed", "cuMemcpyDtoDAsync: 16 bytes at"},
      {"close_before_copy", "the memory there was freed or closed"},
      {"leave_mapping", "the process ends and leaves 1 mapping(s) on device 0"},
  };
  for (const auto& [act, text] : mistakes) {
    INFO(act);
    Child child({act, handle});
    check_death(child, text);
  }
  const EventPool pool(device.context, 1);
  Child child({"query_before_record", to_text(pool.handles()[0])});
  check_death(child, "cuEventQuery: an event of several processes is waited for before it was recorded");
}

TEST_CASE("to close another's memory waits for the device where that is asked for", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, 2097152);
  Child child({"close_during_copy", to_text(handle_of(device, memory))},
              {"FAKECUDA_IMPLICIT_SYNC=1", "FAKECUDA_COPY_MS=50"});
  CHECK(child.hear() == "idle");
  CHECK(child.wait().status == 0);
}

TEST_CASE("whoever leaves things ends, and not when a stream waits for the dead, or for one who does",
          "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  Child holder({"holder"});
  const std::string handle = holder.hear();
  holder.hear();  // it has recorded its event
  Child waiter({"leave_behind_event", handle});
  Child last({"leave_behind_event", waiter.hear()});
  last.hear();
  const auto leaves = [](Child& child) {
    child.say("leave");
    CHECK(child.hear() == "leaves");
  };
  SECTION("dead") {
    holder.kill();
    CHECK(holder.wait().status == 128 + 9);
    leaves(last);
    leaves(waiter);
    CHECK(waiter.wait().status == 0);
    CHECK(last.wait().status == 0);
  }
  SECTION("it lives, and goes on") {
    leaves(last);
    holder.say("go");
    for (Child* const child : {&last, &waiter}) {
      if (child == &waiter) leaves(waiter);
      check_death(*child, "the process ends and leaves 2 event(s) on device 0, 1 stream(s) on device 0");
    }
  }
}

TEST_CASE("whoever frees memory that another maps ends, and not when the other has closed it or died",
          "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  Child owner({"free_when_told"});
  const auto handle = from_text<IpcMemoryHandle>(owner.hear());
  const auto open = [&] {
    const Current current(device.context);
    Address address = 0;
    device.driver().must(device.driver().cuIpcOpenMemHandle, &address, handle, kIpcLazyPeerAccess);
    return address;
  };
  const auto close = [&](Address address) {
    const Current current(device.context);
    device.driver().must(device.driver().cuIpcCloseMemHandle, address);
  };
  const Address address = open();
  CHECK(open() == address);  // the second is the first, counted
  close(address);
  SECTION("still open") {
    owner.say("free");
    check_death(owner, "cuMemFree: another process maps the 2097152 bytes at");
    close(address);
  }
  SECTION("closed") {
    close(address);
    owner.say("free");
    CHECK(owner.wait().status == 0);
  }
  SECTION("dead") {
    close(address);
    Child other({"open_and_hold", to_text(handle)});
    CHECK(other.hear() == "open");
    other.kill();
    CHECK(other.wait().status == 128 + 9);
    owner.say("free");
    CHECK(owner.wait().status == 0);
  }
}

TEST_CASE("whoever destroys an event that another has open ends", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  Child owner({"destroy_event_when_told"});
  const auto handle = from_text<IpcEventHandle>(owner.hear());
  {
    const ImportedEvents events(device.context, std::span(&handle, 1), 0);
    owner.say("destroy");
    check_death(owner, "cuEventDestroy: another process has the event open");
  }
}

TEST_CASE("whoever records an event anew that others have not waited for ends", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  Child owner({"record_when_told"}, {"FAKECUDA_AWAITED=1"});
  const auto handle = from_text<IpcEventHandle>(owner.hear());
  const auto record = [&] {
    owner.say("record");
    CHECK(owner.hear() == "recorded");
  };
  {
    const ImportedEvents events(device.context, std::span(&handle, 1), 0);
    record();
    events.wait({.index = 0, .generation = 1}, device.stream.handle());
    record();
    CHECK(events.done({.index = 0, .generation = 2}));
    CHECK(events.done({.index = 0, .generation = 2}));
    record();
    owner.say("record");
    check_death(owner, "cuEventRecord: 0 process(es) have waited for the record before, wanted 1");
  }
}

TEST_CASE("whoever waits twice for what was recorded once ends", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  EventPool pool(device.context, 1);
  (void)pool.record(device.stream.handle());
  Child child({"wait_twice", to_text(pool.handles()[0])}, {"FAKECUDA_AWAITED=1"});
  check_death(child, "cuStreamWaitEvent: a record is waited for twice");
}

TEST_CASE("on a device that is shared by time a kernel has it alone", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  Child holder({"spin"}, {"FAKECUDA_TIME_SLICE=1"});
  CHECK(holder.hear() == "spinning");
  CHECK(is_taken(device_file()));
  Child other({"run_kernel"}, {"FAKECUDA_TIME_SLICE=1"});
  CHECK(other.hear() == "queued");
  holder.kill();
  CHECK(other.hear() == "ran");
  CHECK(other.wait().status == 0);
}

TEST_CASE("a kernel that waits for another process runs out of time", "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  Child child({"spin"}, {"FAKECUDA_TIME_SLICE=1", "FAKECUDA_KERNEL_TIMEOUT_MS=50"});
  check_death(child, "stand_in_spin has had its device for 50 ms");
}

TEST_CASE("CUDA_VISIBLE_DEVICES says which devices there are, in which order, up to the first that there is not",
          "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const auto sees = [](const std::string& visible, const std::string& wanted) {
    INFO(visible);
    Child child({"see"}, {"FAKECUDA_DEVICES=4", "CUDA_VISIBLE_DEVICES=" + visible});
    CHECK(child.hear() == wanted);
    CHECK(child.wait().status == 0);
  };
  sees("0,1,2,3", "0 1 2 3");
  sees("2,1", "2 1");
  sees("0,2,-1,1", "0 2");
  sees("3,4,1", "3");
  sees("1,no number,2", "1");
  sees("GPU-7374616e-642d-696e-0200-000000000000,1", "2 1");
  sees("GPU-7374616e-642d-696e-03", "3");
  for (const char* const none : {"", "-1", "GPU-7374616e", "GPU-8"}) {
    INFO(none);
    Child child({"see"}, {"FAKECUDA_DEVICES=4", std::string("CUDA_VISIBLE_DEVICES=") + none});
    const auto ended = child.wait();
    CHECK(ended.status == 1);
    CHECK_THAT(ended.error, ContainsSubstring("cuInit: got CUDA_ERROR_NO_DEVICE (100)"));
  }
  Child twice({"see"}, {"FAKECUDA_DEVICES=4", "CUDA_VISIBLE_DEVICES=1,1"});
  check_death(twice, "CUDA_VISIBLE_DEVICES: a device is named twice");
}

TEST_CASE("while a stream is being captured, what a graph would not hold fails and spoils it",
          "[cuda][strictness][stand-in]") {
  if (!is_stand_in()) return;
  const DeviceUnderTest device;
  const Driver& driver = device.driver();
  const auto begin = driver_function<Result(StreamHandle, CaptureMode)>("cuStreamBeginCapture_v2");
  const auto end = driver_function<Result(StreamHandle, void**)>("cuStreamEndCapture");
  const auto asked = [&](CaptureMode thread) {
    ContextHandle context = device.context.handle();
    driver.must(driver.cuCtxPushCurrent, context);
    driver.must(driver.cuThreadExchangeStreamCaptureMode, &thread);
    const Result result = driver.cuStreamQuery(device.stream.handle());
    driver.must(driver.cuThreadExchangeStreamCaptureMode, &thread);
    driver.must(driver.cuCtxPopCurrent, &context);
    return result;
  };
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::own, CaptureMode::relaxed}) {
    for (const CaptureMode thread : {CaptureMode::global, CaptureMode::own, CaptureMode::relaxed}) {
      for (const bool elsewhere : {false, true}) {
        const bool minds = thread != CaptureMode::relaxed && mode != CaptureMode::relaxed &&
                           (!elsewhere || (thread == CaptureMode::global && mode == CaptureMode::global));
        INFO(static_cast<int>(mode) << ' ' << static_cast<int>(thread) << ' ' << elsewhere);
        REQUIRE(begin(device.stream.handle(), mode) == Result::success);
        Result result{};
        if (elsewhere) {
          std::thread([&] { result = asked(thread); }).join();
        } else {
          result = asked(thread);
        }
        CHECK(result == (minds ? Result::capture_unsupported : Result::success));
        void* graph = nullptr;
        CHECK(end(device.stream.handle(), &graph) == (minds ? Result::capture_invalidated : Result::success));
        if (graph != nullptr) driver_function<Result(void*)>("cuGraphDestroy")(graph);
      }
    }
  }
}
