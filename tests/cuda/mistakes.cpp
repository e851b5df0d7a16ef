// Acts of the other process that make a mistake.

#include <unistd.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "cuda/event_pool.hpp"
#include "cuda/reduction.hpp"
#include "tests/cuda/actor.hpp"

namespace rondo::testing {
namespace {

using namespace rondo::cuda;

Address open_memory(const DeviceUnderTest& device, const std::string& handle) {
  const Current current(device.context);
  Address address = 0;
  device.driver().must(device.driver().cuIpcOpenMemHandle, &address, from_text<IpcMemoryHandle>(handle),
                       kIpcLazyPeerAccess);
  return address;
}

void close_memory(const DeviceUnderTest& device, Address address) {
  const Current current(device.context);
  device.driver().cuIpcCloseMemHandle(address);
}

void free_memory(const DeviceUnderTest& device, Address address) {
  const Current current(device.context);
  device.driver().cuMemFree(address);
}

void free_twice(const Handles&) {
  const DeviceUnderTest device;
  DeviceMemory memory(device.context, kBytes);
  const Address address = memory.address();
  memory.free();
  free_memory(device, address);
}

void free_inside(const Handles&) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  free_memory(device, memory.address() + 4096);
}

void copy_from_freed(const Handles&) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  DeviceMemory freed(device.context, kBytes);
  const Address address = freed.address();
  freed.free();
  device.copy(memory.address(), address, 16);
}

void copy_beyond_end(const Handles&) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  device.copy(memory.address(), memory.address() + kBytes - 8, 16);
}

void kernel_on_freed(const Handles&) {
  const DeviceUnderTest device;
  const Reductions reductions(device.context, test_image());
  DeviceMemory memory(device.context, kBytes);
  void* const data = reinterpret_cast<void*>(memory.address());
  memory.free();
  reductions.combine(reductions.find("float", "sum"), {data, data, data, 16}, device.stream.handle());
  device.stream.synchronize();
}

void kernel_out_of_reach(const Handles&) {
  const DeviceUnderTest device(1);
  const PrimaryContext other(driver_under_test(), 0);
  const DeviceMemory memory(other, kBytes);
  const Reductions reductions(device.context, test_image());
  void* const data = reinterpret_cast<void*>(memory.address());
  reductions.combine(reductions.find("float", "sum"), {data, data, data, 16}, device.stream.handle());
  device.stream.synchronize();
}

void stream_after_destroy(const Handles&) {
  const PrimaryContext context(driver_under_test(), 0);
  std::optional<Stream> stream(context);
  const StreamHandle handle = stream->handle();
  stream.reset();
  const Current current(context);
  context.driver().cuStreamQuery(handle);
}

void event_after_destroy(const Handles&) {
  const DeviceUnderTest device;
  const Current current(device.context);
  EventHandle event = nullptr;
  device.driver().must(device.driver().cuEventCreate, &event, kEventDisableTiming);
  device.driver().cuEventDestroy(event);
  device.driver().cuEventQuery(event);
}

void wait_before_record(const Handles&) {
  const DeviceUnderTest device;
  const Current current(device.context);
  EventHandle event = nullptr;
  device.driver().must(device.driver().cuEventCreate, &event, kEventDisableTiming | kEventInterprocess);
  device.driver().cuStreamWaitEvent(device.stream.handle(), event, 0);
}

void query_before_record(const Handles& handles) {
  const DeviceUnderTest device;
  const auto handle = from_text<IpcEventHandle>(handles.at(0));
  const ImportedEvents events(device.context, std::span(&handle, 1), 0);
  events.done({.index = 0, .generation = 1});
}

void wait_twice(const Handles& handles) {
  const DeviceUnderTest device;
  const auto handle = from_text<IpcEventHandle>(handles.at(0));
  const ImportedEvents events(device.context, std::span(&handle, 1), 0);
  for (int i = 0; i < 2; ++i) events.wait({.index = 0, .generation = 1}, device.stream.handle());
}

/// Once for each word it hears.
void record_when_told(const Handles&) {
  const DeviceUnderTest device;
  EventPool pool(device.context, 1);
  say(to_text(pool.handles()[0]));
  while (hear() == "record") {
    const auto ticket = pool.record(device.stream.handle()).value();
    device.stream.synchronize();
    say("recorded");
    (void)pool.give_back(ticket);
  }
}

/// Something that is made in a context and left there, which is left too.
void leave(const std::function<void(const Driver&)>& make) {
  const Driver& driver = driver_under_test();
  ContextHandle context = nullptr;
  driver.must(driver.cuDevicePrimaryCtxRetain, &context, 0);
  driver.must(driver.cuCtxPushCurrent, context);
  make(driver);
}

void leave_memory(const Handles&) {
  leave([](const Driver& driver) {
    Address address = 0;
    driver.cuMemAlloc(&address, kBytes);
  });
}

void leave_host_memory(const Handles&) {
  leave([](const Driver& driver) {
    void* address = nullptr;
    driver.cuMemHostAlloc(&address, kBytes, 0);
  });
}

void free_host_memory_twice(const Handles&) {
  const DeviceUnderTest device;
  const Current current(device.context);
  void* address = nullptr;
  device.driver().must(device.driver().cuMemHostAlloc, &address, kBytes, 0U);
  device.driver().cuMemFreeHost(address);
  device.driver().cuMemFreeHost(address);
}

void memset_beyond_end(const Handles&) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  const Current current(device.context);
  device.driver().cuMemsetD8Async(memory.address(), 0, kBytes + 1, device.stream.handle());
}

void leave_event(const Handles&) {
  leave([](const Driver& driver) {
    EventHandle event = nullptr;
    driver.cuEventCreate(&event, 0);
  });
}

void leave_stream(const Handles&) {
  leave([](const Driver& driver) {
    StreamHandle stream = nullptr;
    driver.cuStreamCreateWithPriority(&stream, 0, 0);
  });
}

void leave_module(const Handles&) {
  leave([](const Driver& driver) {
    ModuleHandle module = nullptr;
    driver.cuModuleLoadData(&module, test_image().data());
  });
}

void leave_mapping(const Handles& handles) {
  leave([&](const Driver& driver) {
    Address address = 0;
    driver.cuIpcOpenMemHandle(&address, from_text<IpcMemoryHandle>(handles.at(0)), kIpcLazyPeerAccess);
  });
}

/// Its stream waits for another's event; what it has recorded behind that is for a third.
void leave_behind_event(const Handles& handles) {
  leave([&](const Driver& driver) {
    StreamHandle stream = nullptr;
    EventHandle theirs = nullptr, own = nullptr;
    IpcEventHandle handle{};
    driver.must(driver.cuStreamCreateWithPriority, &stream, 0U, 0);
    driver.must(driver.cuIpcOpenEventHandle, &theirs, from_text<IpcEventHandle>(handles.at(0)));
    driver.must(driver.cuStreamWaitEvent, stream, theirs, 0U);
    driver.must(driver.cuEventCreate, &own, kEventDisableTiming | kEventInterprocess);
    driver.must(driver.cuEventRecord, own, stream);
    driver.must(driver.cuIpcGetEventHandle, &handle, own);
    say(to_text(handle));
    hear();
    say("leaves");
  });
}

void release_with_memory(const Handles&) {
  leave_memory({});
  driver_under_test().cuDevicePrimaryCtxRelease(0);
}

void close_twice(const Handles& handles) {
  const DeviceUnderTest device;
  const Address address = open_memory(device, handles.at(0));
  close_memory(device, address);
  close_memory(device, address);
}

void copy_from_closed(const Handles& handles) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  const Address address = open_memory(device, handles.at(0));
  close_memory(device, address);
  device.copy(memory.address(), address, 16);
}

void close_before_copy(const Handles& handles) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  const Address address = open_memory(device, handles.at(0));
  HeldStream held(device);
  device.copy(memory.address(), address, 16);
  close_memory(device, address);
  held.let_go();
  device.stream.synchronize();
}

/// Nothing, where closing waits.
void close_during_copy(const Handles& handles) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  const Address address = open_memory(device, handles.at(0));
  device.copy(memory.address(), address, 16);
  close_memory(device, address);
  say(device.stream.idle() ? "idle" : "at work");
}

void free_when_told(const Handles&) {
  const DeviceUnderTest device;
  DeviceMemory memory(device.context, kBytes);
  say(handle_of(device, memory.address()));
  hear();
  memory.free();
}

void open_and_hold(const Handles& handles) {
  const DeviceUnderTest device;
  open_memory(device, handles.at(0));
  say("open");
  hear();
}

void destroy_event_when_told(const Handles&) {
  const DeviceUnderTest device;
  const EventPool pool(device.context, 1);
  say(to_text(pool.handles()[0]));
  hear();
}

/// The stand-in's kernel that waits for what no kernel may: it sets the first word, and ends with the second.
void spin(const Handles&) {
  const DeviceUnderTest device;
  const Driver& driver = device.driver();
  const Current current(device.context);
  ModuleHandle module = nullptr;
  FunctionHandle kernel = nullptr;
  driver.must(driver.cuModuleLoadData, &module, test_image().data());
  driver.must(driver.cuModuleGetFunction, &kernel, module, "stand_in_spin");
  std::atomic<unsigned> words[2] = {};
  std::atomic<unsigned>* argument = &words[0];
  void* parameters[] = {&argument};
  driver.must(driver.cuLaunchKernel, kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, device.stream.handle(), &parameters[0],
              nullptr);
  while (words[0] == 0) std::this_thread::yield();
  say("spinning");
  ::pause();
}

void run_kernel(const Handles&) {
  const DeviceUnderTest device;
  const Reductions reductions(device.context, test_image());
  const DeviceMemory memory(device.context, kBytes);
  void* const data = reinterpret_cast<void*>(memory.address());
  reductions.combine(reductions.find("float", "sum"), {data, data, data, 16}, device.stream.handle());
  say("queued");
  device.stream.synchronize();
  say("ran");
}

}  // namespace

const ActorActs& mistakes() {
  static const ActorActs acts{
      {"free_twice", free_twice},
      {"free_inside", free_inside},
      {"copy_from_freed", copy_from_freed},
      {"copy_beyond_end", copy_beyond_end},
      {"kernel_on_freed", kernel_on_freed},
      {"kernel_out_of_reach", kernel_out_of_reach},
      {"stream_after_destroy", stream_after_destroy},
      {"event_after_destroy", event_after_destroy},
      {"wait_before_record", wait_before_record},
      {"query_before_record", query_before_record},
      {"wait_twice", wait_twice},
      {"record_when_told", record_when_told},
      {"leave_memory", leave_memory},
      {"leave_event", leave_event},
      {"leave_host_memory", leave_host_memory},
      {"free_host_memory_twice", free_host_memory_twice},
      {"memset_beyond_end", memset_beyond_end},
      {"leave_stream", leave_stream},
      {"leave_module", leave_module},
      {"leave_mapping", leave_mapping},
      {"leave_behind_event", leave_behind_event},
      {"release_with_memory", release_with_memory},
      {"close_twice", close_twice},
      {"copy_from_closed", copy_from_closed},
      {"close_before_copy", close_before_copy},
      {"close_during_copy", close_during_copy},
      {"free_when_told", free_when_told},
      {"open_and_hold", open_and_hold},
      {"destroy_event_when_told", destroy_event_when_told},
      {"spin", spin},
      {"run_kernel", run_kernel},
  };
  return acts;
}

}  // namespace rondo::testing
