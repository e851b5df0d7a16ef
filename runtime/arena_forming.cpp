#include "runtime/arena_forming.hpp"

#include <algorithm>
#include <memory>

#include "runtime/engine.hpp"
#include "runtime/memory_sharing.hpp"

namespace rondo::detail {
namespace {

// A member's region: windows of a quarter of a MiB. Shorter ones cost more waits, longer ones spread over the caches;
// both were measured with 16 MiB and 2, 4 and 8 ranks.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostStaging = std::size_t{768} << 10;
constexpr std::size_t kLeastStaging = 4 * kPage;

std::size_t staging_for(const Group& group) {
  const std::size_t share = group.engine().settings().staging_bytes / static_cast<std::size_t>(group.size());
  return std::clamp(share / kPage * kPage, kLeastStaging, kMostStaging);
}

}  // namespace

Task form_arena(Operation& operation) {
  Group& group = operation.group();
  const std::size_t staging = staging_for(group);
  SharedMemory memory;
  Task shared = share_memory(operation, group.id(), Arena::memory_bytes(group.size(), staging), memory);
  co_await shared;
  std::unique_ptr<Arena> arena;
  if (memory) arena = std::make_unique<Arena>(std::move(memory), group.rank(), group.size(), staging);
  group.engine().log().info("communicator of {} ranks: collectives {} shared memory", group.size(),
                            arena ? "in" : "without");
  group.commons().form(std::move(arena));
}

}  // namespace rondo::detail
