#include "runtime/rank_list.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace rondo::detail {

std::string rank_list(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{} {}", first == 0 ? "" : ",", ranks[first]);
    if (last > first) text += fmt::format("{} {}", last > first + 1 ? " to" : ",", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string member_list(std::span<const int> members, std::span<const int> world_ranks) {
  const std::string text = rank_list(members);
  return std::ranges::equal(members, world_ranks) ? text
                                                  : fmt::format("{} ({} of the world)", text, rank_list(world_ranks));
}

}  // namespace rondo::detail
