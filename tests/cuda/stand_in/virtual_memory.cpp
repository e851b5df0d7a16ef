// Addresses and bytes that are had apart. Whole pieces only, which fill what was reserved from its beginning on.

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/cuda/stand_in/device_memory.hpp"
#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/memory.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

constexpr const char* kPieces = "piece(s) of physical memory";

struct Physical {
  std::size_t bytes = 0;
  int device = 0;
};

/// By handle. What has been released is here no more, whether or not it is mapped.
struct PhysicalMemory {
  std::mutex mutex;
  std::map<testing::PhysicalHandle, Physical> pieces;
  testing::PhysicalHandle last = 0;
};

PhysicalMemory& physical_memory() {
  static auto* const state = new PhysicalMemory;
  return *state;
}

// Addresses that are had before there is memory. What does not fit is refused with false.

/// The ranges in this state that together are these bytes; without any where they are not. Under the mutex.
std::vector<DeviceMemory::Ranges::iterator> find_together(DeviceMemory& state, Address address, std::size_t bytes,
                                                          Kind kind) {
  std::vector<DeviceMemory::Ranges::iterator> found;
  Address at = address;
  for (auto next = state.ranges.find(at); at < address + bytes; at += (next++)->second.bytes) {
    if (next == state.ranges.end() || next->first != at || next->second.kind != kind) return {};
    found.push_back(next);
  }
  return at == address + bytes ? found : std::vector<DeviceMemory::Ranges::iterator>{};
}

/// 0: there are no more.
Address reserve_addresses(std::size_t bytes) {
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  return state.add({.kind = Kind::reserved, .bytes = bytes});
}

bool free_addresses(Address address, std::size_t bytes) {
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = find_together(state, address, bytes, Kind::reserved);
  for (const auto& range : found) state.remove(range);
  return !found.empty();
}

/// Nothing may touch it yet.
bool map_there(Address address, std::size_t bytes, int device) {
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.ranges.find(address);
  if (found == state.ranges.end() || found->second.kind != Kind::reserved || found->second.bytes < bytes) return false;
  Range& range = found->second;
  count_live(range.device, name_of(range.kind), -1);
  if (range.bytes > bytes) {
    Range rest{.kind = Kind::reserved, .bytes = range.bytes - bytes};
    count_live(rest.device, name_of(rest.kind), 1);
    state.ranges.emplace(address + bytes, std::move(rest));
  }
  range.kind = Kind::closed;
  range.bytes = bytes;
  range.device = device;
  range.buffer_id = ++state.buffers;
  range.object = SharedObject::create(bytes);
  range.object.map(reinterpret_cast<void*>(address));
  count_live(range.device, name_of(range.kind), 1);
  return true;
}

bool unmap_there(Address address, std::size_t bytes) {
  synchronize_device(current_device());
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = find_together(state, address, bytes, Kind::mapped);
  for (const auto& range : found) {
    state.close(range);
    range->second.kind = Kind::reserved;
    range->second.object = {};
  }
  return !found.empty();
}

bool give_access(Address address, std::size_t bytes) {
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = find_together(state, address, bytes, Kind::closed);
  for (const auto& range : found) range->second.kind = Kind::mapped;
  return !found.empty();
}

}  // namespace
}  // namespace rondo::stand_in

using namespace rondo::stand_in;
using rondo::testing::AccessFacts;
using rondo::testing::PhysicalFacts;
using rondo::testing::PhysicalHandle;

Result cuMemGetAllocationGranularity(std::size_t* bytes, const PhysicalFacts*, int) {
  if (const Result result = entered("cuMemGetAllocationGranularity"); result != Result::success) return result;
  *bytes = kGranule;
  return Result::success;
}

Result cuMemCreate(PhysicalHandle* handle, std::size_t bytes, const PhysicalFacts* facts, unsigned long long) {
  if (const Result result = entered("cuMemCreate"); result != Result::success) return result;
  if (bytes == 0 || bytes % kGranule != 0) return Result::invalid_value;
  if (!machine().sees(facts->place.device)) return Result::invalid_device;
  PhysicalMemory& state = physical_memory();
  const std::scoped_lock lock(state.mutex);
  const Physical piece{bytes, machine().device_of(facts->place.device)};
  state.pieces.emplace(*handle = ++state.last, piece);
  count_live(piece.device, kPieces, 1);
  return Result::success;
}

Result cuMemRelease(PhysicalHandle handle) {
  if (const Result result = entered("cuMemRelease"); result != Result::success) return result;
  PhysicalMemory& state = physical_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.pieces.find(handle);
  if (found == state.pieces.end()) return Result::invalid_value;
  count_live(found->second.device, kPieces, -1);
  state.pieces.erase(found);
  return Result::success;
}

Result cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t, Address, unsigned long long) {
  if (const Result result = entered("cuMemAddressReserve"); result != Result::success) return result;
  if (bytes == 0 || bytes % kGranule != 0) return Result::invalid_value;
  *address = reserve_addresses(bytes);
  return *address == 0 ? Result::out_of_memory : Result::success;
}

Result cuMemAddressFree(Address address, std::size_t bytes) {
  if (const Result result = entered("cuMemAddressFree"); result != Result::success) return result;
  return free_addresses(address, bytes) ? Result::success : Result::invalid_value;
}

Result cuMemMap(Address address, std::size_t bytes, std::size_t offset, PhysicalHandle handle, unsigned long long) {
  if (const Result result = entered("cuMemMap"); result != Result::success) return result;
  PhysicalMemory& state = physical_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.pieces.find(handle);
  if (found == state.pieces.end() || found->second.bytes != bytes || offset != 0) return Result::invalid_value;
  return map_there(address, bytes, found->second.device) ? Result::success : Result::invalid_value;
}

Result cuMemUnmap(Address address, std::size_t bytes) {
  if (const Result result = entered("cuMemUnmap"); result != Result::success) return result;
  return unmap_there(address, bytes) ? Result::success : Result::invalid_value;
}

Result cuMemSetAccess(Address address, std::size_t bytes, const AccessFacts*, std::size_t count) {
  if (const Result result = entered("cuMemSetAccess"); result != Result::success) return result;
  return count == 1 && give_access(address, bytes) ? Result::success : Result::invalid_value;
}
