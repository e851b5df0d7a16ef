#pragma once

#include <span>
#include <string>

namespace rondo::detail {

/// "rank 3", "ranks 1, 3 to 7": of ranks in ascending order, at least one.
std::string rank_list(std::span<const int> ranks);

/// The same of members of a communicator: "rank 1 (rank 3 of the world)". Once, where those are the same numbers.
std::string member_list(std::span<const int> members, std::span<const int> world_ranks);
inline std::string member_name(int member, int world_rank) {
  return member_list(std::span(&member, 1), std::span(&world_rank, 1));
}

}  // namespace rondo::detail
