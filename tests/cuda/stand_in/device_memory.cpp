#include "tests/cuda/stand_in/device_memory.hpp"

#include <sys/mman.h>

#include <utility>

#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/memory.hpp"

namespace rondo::stand_in {
namespace {

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::imported: return "mapping(s)";
    case Kind::reserved:
    case Kind::closed:
    case Kind::mapped: return "address range(s)";
    default: return "allocation(s)";
  }
}

DeviceMemory::DeviceMemory() {
  void* const reserved = ::mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) mistake("no address space for device memory");
  arena = reinterpret_cast<Address>(reserved);
}

DeviceMemory& device_memory() {
  static auto* const state = new DeviceMemory;
  return *state;
}

Address DeviceMemory::place_for(std::uint64_t bytes) const {
  Address at = arena;
  for (const auto& [begin, range] : ranges) {
    if (begin - at >= bytes) break;
    at = (begin + range.bytes + kGranule - 1) / kGranule * kGranule;
  }
  return at + bytes <= arena + kArena ? at : kOutOfMemory;
}

DeviceMemory::Ranges::iterator DeviceMemory::containing(Address address) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  --after;
  return address - after->first < after->second.bytes ? after : ranges.end();
}

Address DeviceMemory::add(Range range) {
  const Address at = place_for(range.bytes);
  if (at == kOutOfMemory) return at;
  if (range.object) range.object.map(pointer(at));
  count_live(range.device, name_of(range.kind), 1);
  ranges.emplace(at, std::move(range));
  return at;
}

void DeviceMemory::close(Ranges::iterator range) {
  const std::size_t bytes = (range->second.bytes + kGranule - 1) / kGranule * kGranule;
  ::mmap(pointer(range->first), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void DeviceMemory::remove(Ranges::iterator range) {
  close(range);
  count_live(range->second.device, name_of(range->second.kind), -1);
  ranges.erase(range);
}

bool check_access(const char* who, Address address, std::size_t bytes, int device) {
  DeviceMemory& state = device_memory();
  const std::scoped_lock lock(state.mutex);
  if (address < state.arena || address >= state.arena + DeviceMemory::kArena) return false;
  const auto found = state.containing(address);
  if (found == state.ranges.end()) {
    mistake(fmt::format("{}: {} bytes at {:#x}: the memory there was freed or closed", who, bytes, address));
  }
  const Range& range = found->second;
  if (range.kind == Kind::reserved || range.kind == Kind::closed) {
    mistake(fmt::format("{}: {} bytes at {:#x}: nothing may be touched there yet", who, bytes, address));
  }
  Address end = found->first + range.bytes;
  // Pieces that are mapped back to back may be used as one.
  for (auto next = found; range.kind == Kind::mapped && ++next != state.ranges.end() && next->first == end;) {
    if (next->second.kind == Kind::mapped && next->second.device == range.device) end += next->second.bytes;
  }
  if (bytes > end - address) {
    mistake(fmt::format("{}: {} bytes at {:#x} end behind the {} bytes at {:#x}", who, bytes, address, range.bytes,
                        found->first));
  }
  if (device != kAnyDevice && range.device != device && !machine().reaches(device, range.device)) {
    mistake(fmt::format("{}: device {} does not reach the memory of device {}", who, device, range.device));
  }
  return true;
}

}  // namespace rondo::stand_in
