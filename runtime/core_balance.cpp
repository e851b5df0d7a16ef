#include "runtime/core_balance.hpp"

#include <sched.h>

#include <algorithm>
#include <array>

namespace rondo::detail {

std::optional<int> core_to_move_to(std::span<const int> cores, std::size_t rank, std::span<const int> usable) {
  // Where there are cores to spare the system knows better which to take.
  if (usable.size() < 2 || usable.size() > CPU_SETSIZE || cores.size() < usable.size()) return std::nullopt;
  const int share = static_cast<int>((cores.size() + usable.size() - 1) / usable.size());
  const auto place_of = [&](int core) {
    return static_cast<std::size_t>(std::find(usable.begin(), usable.end(), core) - usable.begin());
  };
  std::array<int, CPU_SETSIZE> stay{}, seen{};  // so many, by place in `usable`
  for (const int core : cores) {
    const std::size_t place = place_of(core);
    if (place == usable.size()) return std::nullopt;
    stay[place] = std::min(stay[place] + 1, share);
  }
  for (std::size_t one = 0; one <= rank; ++one) {
    if (++seen[place_of(cores[one])] <= share) continue;
    const auto emptiest = std::min_element(stay.begin(), stay.begin() + std::ssize(usable));
    if (one == rank) return usable[static_cast<std::size_t>(emptiest - stay.begin())];
    ++*emptiest;
  }
  return std::nullopt;
}

bool CoreBalance::moves(const Arena& arena) {
  for (std::size_t member = 0; member < cores_.size(); ++member) {
    cores_[member] = arena.core_of(static_cast<int>(member));
  }
  const auto core = core_to_move_to(cores_, static_cast<std::size_t>(arena.rank()), usable_);
  if (core) move_(*core);
  return core.has_value();
}

}  // namespace rondo::detail
