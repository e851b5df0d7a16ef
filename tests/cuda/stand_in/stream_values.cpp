// Words that streams write and wait for, in memory of devices or of the host, where that is registered.

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/memory.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

constexpr const char* kRegisteredRanges = "registered host range(s)";

struct Registered {
  std::size_t bytes = 0;
  int device = 0;
};

/// Memory of the host that devices map, where the host has it.
struct RegisteredMemory {
  std::mutex mutex;
  std::map<Address, Registered> ranges;

  bool has(Address address) {
    const std::scoped_lock lock(mutex);
    const auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) return false;
    const auto& [begin, range] = *std::prev(after);
    return address - begin < range.bytes;
  }
};

/// Never destroyed: streams may still look at the end of main.
RegisteredMemory& registered() {
  static auto* const state = new RegisteredMemory;
  return *state;
}

bool may_touch(const char* call, Address word) {
  return check_access(call, word, sizeof(std::uint32_t), kAnyDevice) || registered().has(word);
}

std::atomic_ref<std::uint32_t> word_at(Address address) {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(address));
}

/// Around which 32 bits go.
bool has_come(std::uint32_t value, std::uint32_t wanted) { return static_cast<std::int32_t>(value - wanted) >= 0; }

Result queue(const char* call, StreamHandle handle, Address word, std::function<void()> work) {
  if (const Result result = entered_in_context(call); result != Result::success) return result;
  StreamState& stream = stream_of(handle);
  if (word % sizeof(std::uint32_t) != 0 || !may_touch(call, word)) return Result::invalid_value;
  stream.queue(std::move(work));
  return Result::success;
}

}  // namespace
}  // namespace rondo::stand_in

using namespace rondo::stand_in;

std::size_t rondo_stand_in_registered() {
  RegisteredMemory& state = registered();
  const std::scoped_lock lock(state.mutex);
  std::size_t bytes = 0;
  for (const auto& [begin, range] : state.ranges) bytes += range.bytes;
  return bytes;
}

Result cuStreamWaitValue32_v2(StreamHandle stream, Address word, std::uint32_t wanted, unsigned flags) {
  if (flags != rondo::bench::kWaitGreaterOrEqual) return Result::invalid_value;
  return queue("cuStreamWaitValue32", stream, word, [=] {
    while (!has_come(word_at(word).load(std::memory_order_acquire), wanted)) std::this_thread::yield();
  });
}

Result cuStreamWriteValue32_v2(StreamHandle stream, Address word, std::uint32_t value, unsigned flags) {
  if (flags != rondo::bench::kWriteBehindAll) return Result::invalid_value;
  return queue("cuStreamWriteValue32", stream, word, [=] { word_at(word).store(value, std::memory_order_release); });
}

Result cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  if (const Result result = entered_in_context("cuMemHostRegister"); result != Result::success) return result;
  if (memory == nullptr || bytes == 0 || (flags & ~rondo::bench::kHostRegisterMapped) != 0)
    return Result::invalid_value;
  RegisteredMemory& state = registered();
  const std::scoped_lock lock(state.mutex);
  const Registered range{bytes, current_device()};
  if (!state.ranges.emplace(reinterpret_cast<Address>(memory), range).second) return Result::invalid_value;
  count_live(range.device, kRegisteredRanges, 1);
  return Result::success;
}

Result cuMemHostUnregister(void* memory) {
  if (const Result result = entered_in_context("cuMemHostUnregister"); result != Result::success) return result;
  synchronize_device(current_device());
  RegisteredMemory& state = registered();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.ranges.find(reinterpret_cast<Address>(memory));
  if (found == state.ranges.end()) return Result::invalid_value;
  count_live(found->second.device, kRegisteredRanges, -1);
  state.ranges.erase(found);
  return Result::success;
}

Result cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned) {
  if (const Result result = entered_in_context("cuMemHostGetDevicePointer"); result != Result::success) return result;
  *address = reinterpret_cast<Address>(memory);
  return registered().has(*address) ? Result::success : Result::invalid_value;
}
