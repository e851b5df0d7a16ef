#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/shared_object.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::cuda {

/// What processes share of an event. Records are numbered from 1; 0: there was none.
struct EventWords {
  /// The last record that was queued, and how many processes have waited for it: those that have it from another.
  struct alignas(8) Last {
    std::uint32_t record = 0;
    std::uint32_t waited = 0;
  };
  std::atomic<Last> last{};
  std::atomic<std::uint32_t> completed{0};  ///< the last that a stream has come to
  std::atomic<std::int64_t> when_ns{0};     ///< it came to that, by the steady clock

  std::uint32_t recorded() const { return last.load(std::memory_order_acquire).record; }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && std::atomic<EventWords::Last>::is_always_lock_free);

struct EventState {
  int device = 0;
  bool interprocess = false;
  bool timing = false;
  bool imported = false;
  // Of an imported one, the last record that this process has waited for, and that on a stream.
  std::atomic<std::uint32_t> waited_for = 0;
  std::atomic<std::uint32_t> followed = 0;
  rondo::stand_in::SharedObject object;
  std::shared_ptr<EventWords> words;  ///< what is queued keeps them, when the event itself is gone
};

}  // namespace rondo::cuda

namespace rondo::stand_in {
namespace {

struct Events {
  std::mutex mutex;
  std::set<EventState*> all;
};

Events& events() {
  static auto* const state = new Events;
  return *state;
}

EventState& event_of(EventHandle handle) {
  Events& state = events();
  const std::scoped_lock lock(state.mutex);
  if (!state.all.contains(handle)) mistake("an event is used after it was destroyed");
  return *handle;
}

EventHandle keep(std::unique_ptr<EventState> event) {
  Events& state = events();
  const std::scoped_lock lock(state.mutex);
  count_live(event->device, "event(s)", 1);
  state.all.insert(event.get());
  return event.release();
}

std::shared_ptr<EventWords> mapped_words(const SharedObject& object) {
  return {static_cast<EventWords*>(object.map(nullptr)),
          [](EventWords* words) { ::munmap(words, sizeof(EventWords)); }};
}

/// Numbers go round.
bool reached(const EventWords& words, std::uint32_t record) {
  return static_cast<std::int32_t>(words.completed.load(std::memory_order_acquire) - record) >= 0;
}

void complete(EventWords& words, std::uint32_t record) {
  if (!reached(words, record)) {
    words.when_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    words.completed.store(record, std::memory_order_release);
  }
  ::syscall(SYS_futex, &words.completed, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

/// The processes whose events streams wait for, or will when they come to it.
struct Awaited {
  using Entry = std::multiset<pid_t>::iterator;

  Entry add(pid_t process) {
    const std::scoped_lock lock(mutex);
    return processes.insert(process);
  }
  void remove(Entry entry) {
    const std::scoped_lock lock(mutex);
    processes.erase(entry);
  }

  std::mutex mutex;
  std::multiset<pid_t> processes;
};

Awaited& awaited() {
  static auto* const state = new Awaited;
  return *state;
}

/// Blocks a stream; for ever when the process is dead that should come to the record.
void wait_for(EventWords& words, std::uint32_t record) {
  for (;;) {
    const std::uint32_t seen = words.completed.load(std::memory_order_acquire);
    if (reached(words, record)) break;
    ::syscall(SYS_futex, &words.completed, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

/// The record that a wait is for. The rule of rondo is that it is queued before.
std::uint32_t last_record(const EventState& event, const char* who) {
  const std::uint32_t record = event.words->recorded();
  if (record == 0 && event.interprocess && machine().strict) {
    mistake(std::string(who) + ": an event of several processes is waited for before it was recorded");
  }
  return record;
}

/// This process has waited for a record of another's.
void count_wait(EventState& event, std::uint32_t record) {
  if (event.waited_for.exchange(record) == record) return;
  EventWords::Last last = event.words->last.load(std::memory_order_acquire);
  while (last.record == record) {
    if (event.words->last.compare_exchange_weak(last, {record, last.waited + 1}, std::memory_order_acq_rel)) break;
  }
}

/// The number of a new record. FAKECUDA_AWAITED: so many others must have waited for the one before.
std::uint32_t next_record(const EventState& event) {
  EventWords::Last last = event.words->last.load(std::memory_order_acquire);
  while (!event.words->last.compare_exchange_weak(last, {last.record + 1, 0}, std::memory_order_acq_rel)) continue;
  if (event.interprocess && last.record != 0 && last.waited < machine().awaited) {
    mistake(fmt::format("cuEventRecord: {} process(es) have waited for the record before, wanted {}", last.waited,
                        machine().awaited));
  }
  return last.record + 1;
}

}  // namespace

bool waits_for_the_dead() {
  // Whom a stream waits for may live and wait for the dead itself: it ends soon, too, or its stream goes on.
  constexpr int kMostMilliseconds = 20'000;  // two that wait for each other do not end
  for (int waited = 0; waited < kMostMilliseconds;
       ++waited, std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    const std::scoped_lock lock(awaited().mutex);
    const auto& processes = awaited().processes;
    const auto is_dead = [](pid_t process) { return ::kill(process, 0) != 0; };
    if (std::any_of(processes.begin(), processes.end(), is_dead)) return true;
    if (processes.size() == processes.count(::getpid())) return false;
  }
  return false;
}

}  // namespace rondo::stand_in

using namespace rondo::stand_in;

Result cuEventCreate(EventHandle* event, unsigned flags) {
  if (const Result result = entered_in_context("cuEventCreate"); result != Result::success) return result;
  auto made = std::make_unique<EventState>();
  made->device = current_device();
  made->interprocess = (flags & kEventInterprocess) != 0;
  made->timing = (flags & kEventDisableTiming) == 0;
  if (made->interprocess) {
    if (made->timing) return Result::invalid_value;
    made->object = SharedObject::create(sizeof(EventWords));
    made->words = mapped_words(made->object);
    new (made->words.get()) EventWords;
  } else {
    made->words = std::make_shared<EventWords>();
  }
  *event = keep(std::move(made));
  return Result::success;
}

Result cuEventDestroy_v2(EventHandle handle) {
  if (const Result result = entered_in_context("cuEventDestroy"); result != Result::success) return result;
  EventState& event = event_of(handle);
  if (machine().strict && event.interprocess && !event.imported && event.object.held_elsewhere()) {
    mistake("cuEventDestroy: another process has the event open");
  }
  Events& state = events();
  const std::scoped_lock lock(state.mutex);
  count_live(event.device, "event(s)", -1);
  state.all.erase(handle);
  delete handle;
  return Result::success;
}

Result cuEventRecord(EventHandle handle, StreamHandle stream_handle) {
  if (const Result result = entered_in_context("cuEventRecord"); result != Result::success) return result;
  const EventState& event = event_of(handle);
  StreamState& stream = stream_of(stream_handle);
  if (event.device != stream.device) return Result::invalid_handle;
  if (event.interprocess) be_late();
  const std::uint32_t record = next_record(event);
  stream.queue_or_do([words = event.words, record] { complete(*words, record); });
  return Result::success;
}

Result cuEventQuery(EventHandle handle) {
  if (const Result result = entered_in_context("cuEventQuery"); result != Result::success) return result;
  EventState& event = event_of(handle);
  const std::uint32_t record = last_record(event, "cuEventQuery");
  if (!reached(*event.words, record)) return Result::not_ready;
  if (event.imported) count_wait(event, record);
  return Result::success;
}

Result cuEventElapsedTime(float* milliseconds, EventHandle first, EventHandle last) {
  if (const Result result = entered("cuEventElapsedTime"); result != Result::success) return result;
  for (const EventHandle handle : {first, last}) {
    const EventState& event = event_of(handle);
    if (!event.timing || event.words->recorded() == 0) return Result::invalid_handle;
    if (!reached(*event.words, event.words->recorded())) return Result::not_ready;
  }
  *milliseconds = static_cast<float>(last->words->when_ns - first->words->when_ns) / 1e6F;
  return Result::success;
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle handle, unsigned) {
  if (const Result result = entered_in_context("cuStreamWaitEvent"); result != Result::success) return result;
  EventState& event = event_of(handle);
  if (event.imported) be_late();
  const std::uint32_t record = last_record(event, "cuStreamWaitEvent");
  if (event.imported) count_wait(event, record);
  if (event.imported && event.followed.exchange(record) == record && machine().awaited > 0) {
    mistake("cuStreamWaitEvent: a record is waited for twice: before that which was meant, perhaps");
  }
  StreamState& waiting = stream_of(stream);
  const auto entry = awaited().add(event.imported ? event.object.handle().process : ::getpid());
  waiting.queue([words = event.words, record, entry] {
    wait_for(*words, record);
    awaited().remove(entry);
  });
  return Result::success;
}

Result cuIpcGetEventHandle(IpcEventHandle* handle, EventHandle event_handle) {
  if (const Result result = entered("cuIpcGetEventHandle"); result != Result::success) return result;
  const EventState& event = event_of(event_handle);
  if (!event.interprocess || event.imported) return Result::invalid_handle;
  const SharedObject::Handle object = event.object.handle();
  *handle = {};
  std::memcpy(handle->bytes, &object, sizeof(object));
  return Result::success;
}

Result cuIpcOpenEventHandle(EventHandle* event, IpcEventHandle handle) {
  if (const Result result = entered_in_context("cuIpcOpenEventHandle"); result != Result::success) return result;
  SharedObject::Handle object;
  std::memcpy(&object, handle.bytes, sizeof(object));
  if (object.process == ::getpid()) return Result::invalid_context;
  auto opened = std::make_unique<EventState>();
  opened->object = SharedObject::find(object);
  if (!opened->object) return Result::invalid_handle;
  opened->device = current_device();
  opened->interprocess = true;
  opened->imported = true;
  opened->words = mapped_words(opened->object);
  *event = keep(std::move(opened));
  return Result::success;
}
