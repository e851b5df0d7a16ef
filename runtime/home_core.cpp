#include "runtime/home_core.hpp"

#include <vector>

namespace rondo::detail {
namespace {

std::size_t dealt(std::size_t place, std::size_t among, std::size_t cores) { return place * cores / among; }

}  // namespace

std::size_t core_in_world(int place, int ranks, std::size_t cores) {
  return dealt(static_cast<std::size_t>(place), static_cast<std::size_t>(ranks), cores);
}

std::optional<int> home_core(std::span<const int> cores, std::span<const int> places, std::size_t own, int ranks) {
  if (cores.size() < 2 || places.size() < cores.size()) return std::nullopt;
  const auto in_world = [&](int place) { return core_in_world(place, ranks, cores.size()); };
  std::vector<int> members(cores.size());  // on each core of the world's
  for (const int place : places) ++members[in_world(place)];
  const auto [least, most] = std::minmax_element(members.begin(), members.end());
  if (*most - *least <= 1) return cores[in_world(places[own])];
  // From the first member's core on, so that groups of neighbours do not all have their surplus on the same.
  return cores[(in_world(places[0]) + dealt(own, places.size(), cores.size())) % cores.size()];
}

}  // namespace rondo::detail
