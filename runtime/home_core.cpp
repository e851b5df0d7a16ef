#include "runtime/home_core.hpp"

#include <vector>

namespace rondo::detail {

std::optional<int> home_core(std::span<const int> cores, std::span<const std::size_t> places, std::size_t own,
                             std::size_t ranks) {
  if (cores.size() < 2 || places.size() < cores.size()) return std::nullopt;
  const auto of_world = [&](std::size_t member) { return dealt_core(cores.size(), places[member], ranks); };
  std::vector<std::size_t> members(cores.size());  // on each
  for (std::size_t member = 0; member < places.size(); ++member) ++members[of_world(member)];
  const auto [least, most] = std::minmax_element(members.begin(), members.end());
  if (*most - *least <= 1) return cores[of_world(own)];
  // From the first member's core on, so that groups of neighbours do not all have their surplus on the same.
  return cores[(of_world(0) + dealt_core(cores.size(), own, places.size())) % cores.size()];
}

}  // namespace rondo::detail
