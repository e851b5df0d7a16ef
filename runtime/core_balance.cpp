#include "runtime/core_balance.hpp"

#include <functional>

#include <rondo/task.hpp>

#include "runtime/cores.hpp"

namespace rondo::detail {

std::optional<int> core_to_move_to(std::span<const int> cores, std::size_t rank, std::span<const int> usable) {
  // Where there are cores to spare the system knows better which to take.
  if (usable.size() < 2 || cores.size() < usable.size()) return std::nullopt;
  const std::size_t share = (cores.size() + usable.size() - 1) / usable.size();
  std::vector<std::size_t, PooledAllocator<std::size_t>> ranks_on(usable.size()), too_many;
  for (std::size_t one = 0; one < cores.size(); ++one) {
    const auto core = std::find(usable.begin(), usable.end(), cores[one]);
    if (core == usable.end()) return std::nullopt;
    std::size_t& there = ranks_on[static_cast<std::size_t>(core - usable.begin())];
    if (there < share) {
      ++there;
    } else {
      too_many.push_back(one);
    }
  }
  for (const std::size_t one : too_many) {
    const auto emptiest = std::min_element(ranks_on.begin(), ranks_on.end());
    if (one == rank) return usable[static_cast<std::size_t>(emptiest - ranks_on.begin())];
    ++*emptiest;
  }
  return std::nullopt;
}

bool CoreBalance::moves(const Arena& arena) {
  if (usable_.empty()) usable_ = own_cores();
  cores_.clear();
  for (int member = 0; member < arena.members(); ++member) cores_.push_back(arena.core_of(member));
  const auto core = core_to_move_to(cores_, static_cast<std::size_t>(arena.rank()), usable_);
  if (core) move_to_core(*core);
  return core.has_value();
}

}  // namespace rondo::detail
