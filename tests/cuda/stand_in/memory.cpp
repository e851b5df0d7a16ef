// Device memory of this process.

#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "tests/cuda/stand_in/device_memory.hpp"
#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

bool is_freed_by_cuMemFree(Kind kind) {
  return kind == Kind::allocated || kind == Kind::pooled || kind == Kind::managed;
}

Result allocate(Address* address, std::size_t bytes, Kind kind) {
  if (bytes == 0) return Result::invalid_value;
  if (bytes > DeviceMemory::kArena) return Result::out_of_memory;
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  Range range{.kind = kind,
              .bytes = bytes,
              .device = current_device(),
              .buffer_id = ++state.buffers,
              .object = SharedObject::create(bytes)};
  *address = state.add(std::move(range));
  return *address == DeviceMemory::kOutOfMemory ? Result::out_of_memory : Result::success;
}

Result release(Address address, const char* who) {
  DeviceMemory& state = device_memory();
  std::optional<int> device;
  {
    const std::scoped_lock lock(state.mutex);
    if (const auto found = state.ranges.find(address); found != state.ranges.end()) device = found->second.device;
  }
  // As the driver does: what is queued in this process may use it.
  if (device) synchronize_device(*device);
  const std::scoped_lock lock(state.mutex);
  const auto found = state.ranges.find(address);
  if (found == state.ranges.end() || !is_freed_by_cuMemFree(found->second.kind)) {
    if (machine().strict) mistake(fmt::format("{}: no allocation begins at {:#x}: freed twice, perhaps", who, address));
    return Result::invalid_value;
  }
  if (machine().strict && found->second.object.held_elsewhere()) {
    mistake(fmt::format("{}: another process maps the {} bytes at {:#x}", who, found->second.bytes, address));
  }
  state.remove(found);
  return Result::success;
}

void set_attribute(PointerAttribute attribute, void* value, Address begin, const Range* range) {
  const auto set = [value](auto fact) { std::memcpy(value, &fact, sizeof(fact)); };
  const bool known = range != nullptr;
  switch (attribute) {
    case PointerAttribute::memory_type: return set(known ? kMemoryTypeDevice : 0U);
    case PointerAttribute::buffer_id: return set(known ? static_cast<unsigned long long>(range->buffer_id) : 0ULL);
    case PointerAttribute::is_managed: return set(known && range->kind == Kind::managed);
    case PointerAttribute::device_ordinal: return set(known ? machine().number_of(range->device) : Machine::kUnseen);
    case PointerAttribute::is_legacy_ipc_capable: return set(known && range->kind == Kind::allocated);
    case PointerAttribute::range_start: return set(known ? begin : Address{0});
    case PointerAttribute::range_bytes: return set(known ? static_cast<std::size_t>(range->bytes) : std::size_t{0});
    case PointerAttribute::memory_pool: return set(known && range->kind == Kind::pooled ? value : nullptr);
  }
}

}  // namespace

}  // namespace rondo::stand_in

using namespace rondo::stand_in;

Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (const Result result = entered_in_context("cuMemAlloc"); result != Result::success) return result;
  return allocate(address, bytes, Kind::allocated);
}

Result cuMemAllocManaged(Address* address, std::size_t bytes, unsigned) {
  if (const Result result = entered_in_context("cuMemAllocManaged"); result != Result::success) return result;
  return allocate(address, bytes, Kind::managed);
}

Result cuMemAllocAsync(Address* address, std::size_t bytes, StreamHandle) {
  if (const Result result = entered_in_context("cuMemAllocAsync"); result != Result::success) return result;
  return allocate(address, bytes, Kind::pooled);
}

Result cuMemFree_v2(Address address) {
  if (const Result result = entered_in_context("cuMemFree"); result != Result::success) return result;
  return release(address, "cuMemFree");
}

Result cuMemFreeAsync(Address address, StreamHandle) {
  if (const Result result = entered_in_context("cuMemFreeAsync"); result != Result::success) return result;
  return release(address, "cuMemFreeAsync");
}

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const Result result = entered_in_context("cuMemGetInfo"); result != Result::success) return result;
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  *total = DeviceMemory::kArena;
  *free = DeviceMemory::kArena;
  for (const auto& [begin, range] : state.ranges) *free -= range.bytes;
  return Result::success;
}

Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values, Address address) {
  if (const Result result = entered("cuPointerGetAttributes"); result != Result::success) return result;
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.containing(address);
  const bool nothing = found == state.ranges.end() || found->second.kind == Kind::reserved;
  const Range* const range = nothing ? nullptr : &found->second;
  for (unsigned i = 0; i < count; ++i) {
    set_attribute(attributes[i], values[i], range == nullptr ? 0 : found->first, range);
  }
  return Result::success;
}
