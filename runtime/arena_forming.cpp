#include "runtime/arena_forming.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

#include "runtime/engine.hpp"
#include "runtime/memory_sharing.hpp"

namespace rondo::detail {
namespace {

// A member's region: three windows of half a MiB, or of a quarter among 8. With 2 and 4 ranks half as much takes 1.02
// to 1.2 times as long for most of 64 KiB to 4 MiB, twice as much as long or longer.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMostStaging = std::size_t{1536} << 10;
constexpr std::size_t kLeastStaging = 4 * kPage;

void tell(const Group& group, const Team& team) {
  const std::string_view how = team.commons.arena() ? "in" : "without";
  if (team.size() == group.size()) {
    group.engine().log().info("communicator of {} ranks: collectives {} shared memory", group.size(), how);
  } else {
    group.engine().log().info(
        "communicator of {} ranks: collectives in two levels, of the {} on this host {} shared memory", group.size(),
        team.size(), how);
  }
}

}  // namespace

std::size_t staging_of_member(std::size_t staging_bytes, int members) noexcept {
  const std::size_t share = staging_bytes / static_cast<std::size_t>(members);
  return std::clamp(share / kPage * kPage, kLeastStaging, kMostStaging);
}

Task form_arena(Operation& operation, Team& team) {
  const Group& group = operation.group();
  const std::size_t staging = staging_of_member(group.engine().settings().staging_bytes, team.size());
  const std::size_t bytes = Arena::memory_bytes(team.size(), staging);
  SharedMemory memory;
  Refusal refusal;
  Task shared = share_memory(operation, team, group.id(), bytes, memory, refusal);
  co_await shared;
  if (memory) {
    team.commons.form(std::make_unique<Arena>(std::move(memory), team.rank, team.size(), staging));
  } else {
    team.commons.form_none(refusal.text(group, bytes));
    refusal.tell(group.engine(), "collectives", "messages", bytes);
  }
  tell(group, team);
  // While others mapped theirs, or were still being started, they computed; from here on they may not.
  operation.group().engine().progress().habits().forget_long_yields();
}

}  // namespace rondo::detail
