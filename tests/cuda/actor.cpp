// The other process of a test: cuda_actor ACT [HANDLE...]. It answers in lines on standard output to lines on standard
// input. Acts that make a mistake are in mistakes.cpp.

#include "tests/cuda/actor.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <sstream>

#include "cuda/device.hpp"
#include "cuda/event_pool.hpp"
#include "cuda/export_registry.hpp"
#include "cuda/import_table.hpp"
#include "cuda/reduction.hpp"
#include "cuda/staging.hpp"

namespace {

using namespace rondo::cuda;
using namespace rondo::testing;

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
/// closed REGION. And others, to its end: more BYTES CONTENT.
void sharer(const Handles&) {
  const DeviceUnderTest device;
  ExportRegistry registry(device.driver());
  std::optional<DeviceMemory> memory;
  std::deque<DeviceMemory> others;
  const auto expose = [&](const DeviceMemory& made, unsigned content) {
    device.fill(made.address(), made.bytes(), static_cast<std::byte>(content));
    const Current current(device.context);
    say(exposure_text(registry.expose(0, made.facts(), made.address() + 100)));
  };
  for (;;) {
    std::istringstream line(hear());
    std::string what;
    std::size_t number = 0;
    unsigned content = 0;
    line >> what >> number >> content;
    if (what == "new") {
      expose(memory.emplace(device.context, number), content);
    } else if (what == "more") {
      expose(others.emplace_back(device.context, number), content);
    } else if (what == "renew") {
      const std::size_t bytes = memory->bytes();
      memory.reset();
      expose(memory.emplace(device.context, bytes), static_cast<unsigned>(number));
    } else if (what == "last") {
      say(std::to_string(std::to_integer<int>(device.content(memory->address() + memory->bytes() - 1, 1)[0])));
    } else if (what == "retire") {
      say(std::to_string(registry.retire(memory->address(), memory->bytes()).at(0).region));
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

/// The devices that are seen, by which of the stand-in's they are.
void see(const Handles&) {
  std::string text;
  for (const DeviceFacts& device : devices(driver_under_test())) {
    text += (text.empty() ? "" : " ") + std::to_string(device.uuid.bytes[8]);
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
    for (bool drained = false; !drained;) {
      try {
        stream_.synchronize();
        drained = true;
      } catch (const CudaError&) {
        // The call was to fail.
      }
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

const ActorActs kActs{
    {"writer", writer},         {"holder", holder}, {"sharer", sharer},
    {"reach", reach},           {"see", see},       {"map_on_second", map_on_second},
    {"everything", everything}, {"stage", stage},
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const ActorActs& acts = kActs.contains(argv[1]) ? kActs : mistakes();
    acts.at(argv[1])(Handles(argv + 2, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "cuda_actor: " << error.what() << '\n';
    return 1;
  }
}
