// Device memory that another process has allocated.

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/cuda/stand_in/device_memory.hpp"
#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

bool came_from(const Range& range, const ExportedMemory& other) {
  return range.kind == Kind::imported && range.exported.object.word == other.object.word;
}

bool overlaps_at_owner(const Range& range, const ExportedMemory& other) {
  const ExportedMemory& exported = range.exported;
  return range.kind == Kind::imported && exported.object.process == other.object.process &&
         exported.base < other.base + other.bytes && other.base < exported.base + exported.bytes;
}

/// Under the mutex.
std::uint64_t mapped_bytes(const DeviceMemory& state) {
  std::uint64_t bytes = 0;
  for (const auto& [begin, range] : state.ranges) bytes += range.kind == Kind::imported ? range.bytes : 0;
  return bytes;
}

std::atomic<std::size_t> times_mapped{0};

}  // namespace
}  // namespace rondo::stand_in

using namespace rondo::stand_in;

std::size_t rondo_stand_in_mapped() { return times_mapped; }

Result cuIpcGetMemHandle(IpcMemoryHandle* handle, Address address) {
  if (const Result result = entered_in_context("cuIpcGetMemHandle"); result != Result::success) return result;
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.containing(address);
  if (found == state.ranges.end() || found->second.kind != Kind::allocated) return Result::invalid_value;
  const ExportedMemory exported{.object = found->second.object.handle(),
                                .base = found->first,
                                .bytes = found->second.bytes,
                                .device = found->second.device};
  *handle = {};
  std::memcpy(handle->bytes, &exported, sizeof(exported));
  return Result::success;
}

Result cuIpcOpenMemHandle_v2(Address* address, IpcMemoryHandle handle, unsigned flags) {
  if (const Result result = entered_in_context("cuIpcOpenMemHandle"); result != Result::success) return result;
  ExportedMemory exported;
  std::memcpy(&exported, handle.bytes, sizeof(exported));
  if (flags != kIpcLazyPeerAccess) return Result::invalid_value;
  if (exported.object.process == ::getpid()) return Result::invalid_context;
  if (exported.device != current_device() && !machine().reaches(current_device(), exported.device)) {
    return Result::peer_access_unsupported;
  }
  if (exported.device == machine().unmappable) return machine().unmappable_code;
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  for (auto& [begin, range] : state.ranges) {
    if (came_from(range, exported)) {
      ++range.opened;
      *address = begin;
      return Result::success;
    }
    if (overlaps_at_owner(range, exported)) return Result::already_mapped;
  }
  if (mapped_bytes(state) + exported.bytes > machine().mappable) return Result::out_of_memory;
  SharedObject object = SharedObject::find(exported.object);
  if (!object) return Result::invalid_value;
  Range range{.kind = Kind::imported,
              .bytes = exported.bytes,
              .device = exported.device,
              .buffer_id = ++state.buffers,
              .object = std::move(object),
              .exported = exported,
              .opened = 1};
  *address = state.add(std::move(range));
  if (*address == DeviceMemory::kOutOfMemory) return Result::out_of_memory;
  ++times_mapped;
  return Result::success;
}

Result cuIpcCloseMemHandle(Address address) {
  if (const Result result = entered_in_context("cuIpcCloseMemHandle"); result != Result::success) return result;
  if (machine().implicit_sync) synchronize_device(current_device());
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.ranges.find(address);
  if (found == state.ranges.end() || found->second.kind != Kind::imported) {
    if (machine().strict)
      mistake(fmt::format("cuIpcCloseMemHandle: nothing is open at {:#x}: closed twice, perhaps", address));
    return Result::invalid_value;
  }
  if (--found->second.opened == 0) state.remove(found);
  return Result::success;
}
