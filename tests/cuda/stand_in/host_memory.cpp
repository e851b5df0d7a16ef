#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/memory.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

constexpr const char* kName = "host block(s)";

struct PinnedBlock {
  int device = 0;
  std::size_t bytes = 0;
  std::unique_ptr<std::byte[]> memory;
};

struct HostMemory {
  std::mutex mutex;
  std::map<Address, PinnedBlock> blocks;
  std::size_t pinned = 0;
  std::size_t most_pinned = 0;
};

/// Never destroyed: streams may still copy at the end of main.
HostMemory& host_memory() {
  static auto* const state = new HostMemory;
  return *state;
}

constexpr const char* kRegisteredRanges = "registered host range(s)";

struct Registered {
  std::size_t bytes = 0;
  int device = 0;
};

/// Memory of the host that devices map, where the host has it.
struct RegisteredMemory {
  std::mutex mutex;
  std::map<Address, Registered> ranges;
};

/// Never destroyed: streams may still look at the end of main.
RegisteredMemory& registered() {
  static auto* const state = new RegisteredMemory;
  return *state;
}

/// Whether this many bytes lie in one of the ranges.
template <typename Range>
bool lie_in(const std::map<Address, Range>& ranges, Address begin, std::size_t bytes) {
  const auto after = ranges.upper_bound(begin);
  if (after == ranges.begin()) return false;
  const auto& [first, range] = *std::prev(after);
  const std::size_t offset = begin - first;
  return offset <= range.bytes && bytes <= range.bytes - offset;
}

}  // namespace

bool is_registered(Address address, std::size_t bytes) {
  const std::scoped_lock lock(registered().mutex);
  return lie_in(registered().ranges, address, bytes);
}

bool is_pinned(Address address, std::size_t bytes) {
  if (is_registered(address, bytes)) return true;
  const std::scoped_lock lock(host_memory().mutex);
  return lie_in(host_memory().blocks, address, bytes);
}

}  // namespace rondo::stand_in

using namespace rondo::stand_in;

std::size_t rondo_stand_in_most_pinned() {
  const std::scoped_lock lock(host_memory().mutex);
  return host_memory().most_pinned;
}

Result cuMemHostAlloc(void** address, std::size_t bytes, unsigned) {
  if (const Result result = entered_in_context("cuMemHostAlloc"); result != Result::success) return result;
  if (bytes == 0) return Result::invalid_value;
  PinnedBlock block{current_device(), bytes, std::unique_ptr<std::byte[]>(new std::byte[bytes])};
  *address = block.memory.get();
  HostMemory& state = host_memory();
  const std::scoped_lock lock(state.mutex);
  count_live(block.device, kName, 1);
  state.pinned += bytes;
  state.most_pinned = std::max(state.most_pinned, state.pinned);
  state.blocks.emplace(reinterpret_cast<Address>(*address), std::move(block));
  return Result::success;
}

Result cuMemFreeHost(void* address) {
  if (const Result result = entered_in_context("cuMemFreeHost"); result != Result::success) return result;
  // As the driver does: what is queued in this process may use it.
  synchronize_device(current_device());
  HostMemory& state = host_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.blocks.find(reinterpret_cast<Address>(address));
  if (found == state.blocks.end()) {
    if (machine().strict) mistake(fmt::format("cuMemFreeHost: no block begins at {}: freed twice, perhaps", address));
    return Result::invalid_value;
  }
  count_live(found->second.device, kName, -1);
  state.pinned -= found->second.bytes;
  state.blocks.erase(found);
  return Result::success;
}

std::size_t rondo_stand_in_registered() {
  RegisteredMemory& state = registered();
  const std::scoped_lock lock(state.mutex);
  std::size_t bytes = 0;
  for (const auto& [begin, range] : state.ranges) bytes += range.bytes;
  return bytes;
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
  return is_registered(*address, 1) ? Result::success : Result::invalid_value;
}
