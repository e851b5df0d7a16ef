// Words that streams write and wait for, in memory of devices or of the host, where that is registered.

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/memory.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

bool may_touch(const char* call, Address word) {
  return check_access(call, word, sizeof(std::uint32_t), kAnyDevice) || is_registered(word, sizeof(std::uint32_t));
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
