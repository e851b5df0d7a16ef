#include "tests/cuda/stand_in/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/shared_object.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

constexpr std::size_t kArena = std::size_t{64} << 30;
constexpr Address kOutOfMemory = 0;

/// Where addresses were had by themselves: `reserved` before there is memory, `closed` while nothing may touch it.
enum class Kind { allocated, pooled, managed, imported, reserved, closed, mapped };

/// What travels as IpcMemoryHandle.
struct ExportedMemory {
  SharedObject::Handle object;
  Address base = 0;
  std::uint64_t bytes = 0;
  int device = 0;
};
static_assert(sizeof(ExportedMemory) <= sizeof(IpcMemoryHandle));

struct Range {
  Kind kind = Kind::allocated;
  std::uint64_t bytes = 0;
  int device = 0;
  std::uint64_t buffer_id = 0;
  SharedObject object{};
  // Of an imported one:
  ExportedMemory exported{};
  int opened = 0;

  bool came_from(const ExportedMemory& other) const {
    return kind == Kind::imported && exported.object.word == other.object.word;
  }
  bool overlaps_at_owner(const ExportedMemory& other) const {
    return kind == Kind::imported && exported.object.process == other.object.process &&
           exported.base < other.base + other.bytes && other.base < exported.base + exported.bytes;
  }
};

using Ranges = std::map<Address, Range>;

/// All device memory of this process, in one piece of its address space; where nothing is, nothing may be touched.
/// Addresses are used again at once: the lowest that are free.
struct Memory {
  std::mutex mutex;
  Address arena = 0;
  Ranges ranges;  ///< by where they begin here
  std::uint64_t buffers = 0;

  Memory() {
    void* const reserved = ::mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) mistake("no address space for device memory");
    arena = reinterpret_cast<Address>(reserved);
  }
};

Memory& memory() {
  static auto* const state = new Memory;
  return *state;
}

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

/// Under the mutex, as all that follow.
Address place_for(const Memory& state, std::uint64_t bytes) {
  Address at = state.arena;
  for (const auto& [begin, range] : state.ranges) {
    if (begin - at >= bytes) break;
    at = (begin + range.bytes + kGranule - 1) / kGranule * kGranule;
  }
  return at + bytes <= state.arena + kArena ? at : kOutOfMemory;
}

Ranges::iterator containing(Memory& state, Address address) {
  auto after = state.ranges.upper_bound(address);
  if (after == state.ranges.begin()) return state.ranges.end();
  --after;
  return address - after->first < after->second.bytes ? after : state.ranges.end();
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::imported: return "mapping(s)";
    case Kind::reserved:
    case Kind::closed:
    case Kind::mapped: return "address range(s)";
    default: return "allocation(s)";
  }
}

bool is_freed_by_cuMemFree(Kind kind) {
  return kind == Kind::allocated || kind == Kind::pooled || kind == Kind::managed;
}

Address add(Memory& state, Range range) {
  const Address at = place_for(state, range.bytes);
  if (at == kOutOfMemory) return at;
  if (range.object) range.object.map(pointer(at));
  count_live(range.device, name_of(range.kind), 1);
  state.ranges.emplace(at, std::move(range));
  return at;
}

std::uint64_t mapped_bytes(const Memory& state) {
  std::uint64_t bytes = 0;
  for (const auto& [begin, range] : state.ranges) bytes += range.kind == Kind::imported ? range.bytes : 0;
  return bytes;
}

void close(Ranges::iterator range) {
  const std::size_t bytes = (range->second.bytes + kGranule - 1) / kGranule * kGranule;
  ::mmap(pointer(range->first), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void remove(Memory& state, Ranges::iterator range) {
  close(range);
  count_live(range->second.device, name_of(range->second.kind), -1);
  state.ranges.erase(range);
}

Result allocate(Address* address, std::size_t bytes, Kind kind) {
  if (bytes == 0) return Result::invalid_value;
  if (bytes > kArena) return Result::out_of_memory;
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  Range range{.kind = kind,
              .bytes = bytes,
              .device = current_device(),
              .buffer_id = ++state.buffers,
              .object = SharedObject::create(bytes)};
  *address = add(state, std::move(range));
  return *address == kOutOfMemory ? Result::out_of_memory : Result::success;
}

Result release(Address address, const char* who) {
  Memory& state = memory();
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
  remove(state, found);
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

bool check_access(const char* who, Address address, std::size_t bytes, int device) {
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  if (address < state.arena || address >= state.arena + kArena) return false;
  const auto found = containing(state, address);
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

namespace {

/// The ranges in this state that together are these bytes; without any where they are not. Under the mutex.
std::vector<Ranges::iterator> find_together(Memory& state, Address address, std::size_t bytes, Kind kind) {
  std::vector<Ranges::iterator> found;
  Address at = address;
  for (auto next = state.ranges.find(at); at < address + bytes; at += (next++)->second.bytes) {
    if (next == state.ranges.end() || next->first != at || next->second.kind != kind) return {};
    found.push_back(next);
  }
  return at == address + bytes ? found : std::vector<Ranges::iterator>{};
}

}  // namespace

Address reserve_addresses(std::size_t bytes) {
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  return add(state, {.kind = Kind::reserved, .bytes = bytes});
}

bool free_addresses(Address address, std::size_t bytes) {
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = find_together(state, address, bytes, Kind::reserved);
  for (const auto& range : found) remove(state, range);
  return !found.empty();
}

bool map_there(Address address, std::size_t bytes, int device) {
  Memory& state = memory();
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
  range.object.map(pointer(address));
  count_live(range.device, name_of(range.kind), 1);
  return true;
}

bool unmap_there(Address address, std::size_t bytes) {
  synchronize_device(current_device());
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = find_together(state, address, bytes, Kind::mapped);
  for (const auto& range : found) {
    close(range);
    range->second.kind = Kind::reserved;
    range->second.object = {};
  }
  return !found.empty();
}

bool give_access(Address address, std::size_t bytes) {
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = find_together(state, address, bytes, Kind::closed);
  for (const auto& range : found) range->second.kind = Kind::mapped;
  return !found.empty();
}

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
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  *total = kArena;
  *free = kArena;
  for (const auto& [begin, range] : state.ranges) *free -= range.bytes;
  return Result::success;
}

Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values, Address address) {
  if (const Result result = entered("cuPointerGetAttributes"); result != Result::success) return result;
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = containing(state, address);
  const bool nothing = found == state.ranges.end() || found->second.kind == Kind::reserved;
  const Range* const range = nothing ? nullptr : &found->second;
  for (unsigned i = 0; i < count; ++i) {
    set_attribute(attributes[i], values[i], range == nullptr ? 0 : found->first, range);
  }
  return Result::success;
}

Result cuIpcGetMemHandle(IpcMemoryHandle* handle, Address address) {
  if (const Result result = entered_in_context("cuIpcGetMemHandle"); result != Result::success) return result;
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = containing(state, address);
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
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  for (auto& [begin, range] : state.ranges) {
    if (range.came_from(exported)) {
      ++range.opened;
      *address = begin;
      return Result::success;
    }
    if (range.overlaps_at_owner(exported)) return Result::already_mapped;
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
  *address = add(state, std::move(range));
  return *address == kOutOfMemory ? Result::out_of_memory : Result::success;
}

Result cuIpcCloseMemHandle(Address address) {
  if (const Result result = entered_in_context("cuIpcCloseMemHandle"); result != Result::success) return result;
  if (machine().implicit_sync) synchronize_device(current_device());
  Memory& state = memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.ranges.find(address);
  if (found == state.ranges.end() || found->second.kind != Kind::imported) {
    if (machine().strict)
      mistake(fmt::format("cuIpcCloseMemHandle: nothing is open at {:#x}: closed twice, perhaps", address));
    return Result::invalid_value;
  }
  if (--found->second.opened == 0) remove(state, found);
  return Result::success;
}
