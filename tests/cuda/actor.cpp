// The other process of a test: cuda_actor ACT [HANDLE...]. It answers in lines on standard output to lines on standard
// input. Acts named for a mistake make it, and are ended by the stand-in.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/device.hpp"
#include "cuda/event_pool.hpp"
#include "cuda/export_registry.hpp"
#include "cuda/import_table.hpp"
#include "cuda/reduction.hpp"
#include "cuda/staging.hpp"
#include "tests/cuda/device_under_test.hpp"
#include "tests/cuda/wire_text.hpp"

namespace {

using namespace rondo::cuda;
using namespace rondo::testing;
using Handles = std::vector<std::string>;

constexpr std::size_t kBytes = 2 << 20;

void say(const std::string& line) { std::cout << line << std::endl; }

std::string hear() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

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

std::string handle_of(const DeviceUnderTest& device, Address address) {
  const Current current(device.context);
  IpcMemoryHandle handle{};
  device.driver().must(device.driver().cuIpcGetMemHandle, &handle, address);
  return to_text(handle);
}

// Acts that others work with.

/// Fills its memory anew at each line, the whole with the number of the line, and says which event tells when.
void writer(const Handles&) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  EventPool pool(device.context, 1);
  say(std::to_string(kBytes));
  say(handle_of(device, memory.address()));
  say(to_text(pool.handles()[0]));
  std::vector<std::byte> content(kBytes);
  EventTicket ticket;
  for (int round = 1; hear() == "write"; ++round) {
    if (round > 1 && !pool.give_back(ticket)) throw std::runtime_error("the event is not in use");
    device.stream.synchronize();  // the content must stay as long as it is copied
    content.assign(kBytes, static_cast<std::byte>(round));
    // In parts, so that there is much to come too early for.
    constexpr std::size_t kPart = kBytes / 8;
    for (std::size_t at = 0; at < kBytes; at += kPart) {
      device.write(memory.address() + at, std::span(content).subspan(at, kPart));
    }
    ticket = pool.record(device.stream.handle()).value();
    say(to_text(ticket));
  }
  device.stream.synchronize();
}

/// Records an event behind a kernel that runs until a line comes.
void holder(const Handles&) {
  const DeviceUnderTest device;
  EventPool pool(device.context, 1);
  say(to_text(pool.handles()[0]));
  HeldStream held(device);
  say(to_text(pool.record(device.stream.handle()).value()));
  hear();
  held.let_go();
  device.stream.synchronize();
  say("done");
  hear();
}

std::string exposure_text(const ExportRegistry::Exposure& exposure) {
  std::ostringstream text;
  text << exposure.unmap.size();
  for (const auto& unmap : exposure.unmap) text << ' ' << unmap.region;
  text << ' ' << exposure.region << ' ' << exposure.offset;
  if (exposure.description) text << ' ' << to_text(*exposure.description);
  return text.str();
}

/// Exposes one allocation to one peer: new BYTES CONTENT; renew CONTENT (freed and allocated again); last byte; retire;
/// closed REGION.
void sharer(const Handles&) {
  const DeviceUnderTest device;
  ExportRegistry registry(device.driver());
  std::optional<DeviceMemory> memory;
  const auto expose = [&](std::size_t bytes, unsigned content) {
    memory.emplace(device.context, bytes);
    device.fill(memory->address(), bytes, static_cast<std::byte>(content));
    const Current current(device.context);
    say(exposure_text(registry.expose(0, memory->facts(), memory->address() + 100)));
  };
  for (;;) {
    std::istringstream line(hear());
    std::string what;
    std::size_t number = 0;
    unsigned content = 0;
    line >> what >> number >> content;
    if (what == "new") {
      expose(number, content);
    } else if (what == "renew") {
      const std::size_t bytes = memory->bytes();
      memory.reset();
      expose(bytes, static_cast<unsigned>(number));
    } else if (what == "last") {
      say(std::to_string(std::to_integer<int>(device.content(memory->address() + memory->bytes() - 1, 1)[0])));
    } else if (what == "retire") {
      say(std::to_string(registry.retire(memory->facts()).at(0).region));
    } else if (what == "closed") {
      registry.closed(0, static_cast<RegionId>(number));
      const bool closed = registry.is_closed(memory->address(), memory->bytes());
      if (closed) memory.reset();
      say(closed ? "free" : "not yet");
    } else {
      return;
    }
  }
}

void reach(const Handles&) {
  std::string text;
  const auto found = devices(driver_under_test());
  for (const DeviceFacts& from : found) {
    if (!text.empty()) text += ' ';
    for (const DeviceFacts& to : found) text += reaches(driver_under_test(), from.device, to.device) ? '1' : '0';
  }
  say(text);
}

void map_on_second(const Handles& handles) {
  const PrimaryContext context(driver_under_test(), 1);
  const auto region = from_text<RegionDescription>(handles.at(0));
  ImportTable table(context, 0);
  table.announce(region);
  try {
    table.use(region.id, 0, 1);
    say("mapped");
  } catch (const CudaError& error) {
    say(error.what());
  }
}

/// Waits for a stream when it goes, in whatever way: what the stream still uses must stay until then.
class Drained {
 public:
  explicit Drained(const Stream& stream) : stream_(stream) {}
  ~Drained() {
    while (driver_under_test().cuStreamSynchronize(stream_.handle()) != Result::success) {
    }
  }

 private:
  const Stream& stream_;
};

/// Everything once; what is made goes in whatever way this is left.
void use_everything(const Handles& handles) {
  const Driver& driver = driver_under_test();
  const auto found = devices(driver);
  find_device(driver, found.at(0).uuid);
  if (found.size() > 1) reaches(driver, 0, 1);
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  EventPool pool(device.context, 2);
  pool.record(device.stream.handle());
  {
    const Current current(device.context);
    ExportRegistry registry(driver);
    registry.expose(0, classify(driver, memory.address()), memory.address());
  }
  const auto event = from_text<IpcEventHandle>(handles.at(1));
  const ImportedEvents events(device.context, std::span(&event, 1), 7);
  events.wait({.index = 0, .generation = 1}, device.stream.handle());
  ImportTable table(device.context, 7);
  const auto region = from_text<RegionDescription>(handles.at(0));
  table.announce(region);
  const auto use = table.use(region.id, 0, kBytes);
  const Drained drained(device.stream);
  device.copy(memory.address(), use->address(), kBytes);
  const Reductions reductions(device.context, test_image());
  void* const data = reinterpret_cast<void*>(memory.address());
  reductions.combine(reductions.find("float", "sum"), {data, data, data, 1000}, device.stream.handle());
  device.stream.synchronize();
  device.stream.idle();
  Staging staging(device.context);
  staging.take(kBytes);
  events.done({.index = 0, .generation = 1});
}

void everything(const Handles& handles) {
  try {
    use_everything(handles);
    say("done");
  } catch (const std::runtime_error& error) {
    // Without the library's name, which comes first when there is no driver at all.
    const std::string what = error.what();
    const std::string library = std::string(STAND_IN) + ": ";
    say("caught " + (what.starts_with(library) ? what.substr(library.size()) : what));
  }
}

/// Two blocks in turn, each bigger than what is kept: what each is, and whether copies through it are right.
void stage(const Handles&) {
  const DeviceUnderTest device;
  const DeviceMemory memory(device.context, kBytes);
  Staging staging(device.context, 4096);
  for (const std::byte value : {std::byte{1}, std::byte{2}}) {
    try {
      const Staging::Block block = staging.take(kBytes);
      const std::span<std::byte> content(block.data(), block.size());
      std::fill(content.begin(), content.end(), value);
      device.write(memory.address(), content);
      device.stream.synchronize();
      const bool right = device.holds(memory.address(), kBytes, value);
      say(std::string(block.pinned() ? "pinned" : "ordinary") + (right ? "" : ", wrong"));
    } catch (const CudaError& error) {
      say(std::string("caught ") + error.what());
    }
  }
}

// Mistakes.

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

const std::map<std::string, void (*)(const Handles&)> kActs{
    {"writer", writer},
    {"holder", holder},
    {"sharer", sharer},
    {"reach", reach},
    {"map_on_second", map_on_second},
    {"everything", everything},
    {"stage", stage},
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
    {"leave_memory", leave_memory},
    {"leave_event", leave_event},
    {"leave_host_memory", leave_host_memory},
    {"free_host_memory_twice", free_host_memory_twice},
    {"memset_beyond_end", memset_beyond_end},
    {"leave_stream", leave_stream},
    {"leave_module", leave_module},
    {"leave_mapping", leave_mapping},
    {"release_with_memory", release_with_memory},
    {"close_twice", close_twice},
    {"copy_from_closed", copy_from_closed},
    {"close_before_copy", close_before_copy},
    {"free_when_told", free_when_told},
    {"open_and_hold", open_and_hold},
    {"destroy_event_when_told", destroy_event_when_told},
    {"spin", spin},
    {"run_kernel", run_kernel},
};

}  // namespace

int main(int argc, char** argv) {
  try {
    kActs.at(argv[1])(Handles(argv + 2, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "cuda_actor: " << error.what() << '\n';
    return 1;
  }
}
