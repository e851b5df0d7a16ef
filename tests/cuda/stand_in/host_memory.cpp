#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "tests/cuda/stand_in/entry_points.hpp"
#include "tests/cuda/stand_in/machine.hpp"
#include "tests/cuda/stand_in/streams.hpp"

namespace rondo::stand_in {
namespace {

constexpr const char* kName = "host block(s)";

struct PinnedBlock {
  int device = 0;
  std::size_t size = 0;
  std::unique_ptr<std::byte[]> bytes;
};

struct HostMemory {
  std::mutex mutex;
  std::map<void*, PinnedBlock> blocks;
  std::size_t pinned = 0;
  std::size_t most_pinned = 0;
};

/// Never destroyed: streams may still copy at the end of main.
HostMemory& host_memory() {
  static auto* const state = new HostMemory;
  return *state;
}

}  // namespace
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
  *address = block.bytes.get();
  HostMemory& state = host_memory();
  const std::scoped_lock lock(state.mutex);
  count_live(block.device, kName, 1);
  state.pinned += bytes;
  state.most_pinned = std::max(state.most_pinned, state.pinned);
  state.blocks.emplace(*address, std::move(block));
  return Result::success;
}

Result cuMemFreeHost(void* address) {
  if (const Result result = entered_in_context("cuMemFreeHost"); result != Result::success) return result;
  // As the driver does: what is queued in this process may use it.
  synchronize_device(current_device());
  HostMemory& state = host_memory();
  const std::scoped_lock lock(state.mutex);
  const auto found = state.blocks.find(address);
  if (found == state.blocks.end()) {
    if (machine().strict) mistake(fmt::format("cuMemFreeHost: no block begins at {}: freed twice, perhaps", address));
    return Result::invalid_value;
  }
  count_live(found->second.device, kName, -1);
  state.pinned -= found->second.size;
  state.blocks.erase(found);
  return Result::success;
}
