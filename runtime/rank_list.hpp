#pragma once

#include <span>
#include <string>

namespace rondo::detail {

/// "rank 3", "ranks 1, 3 to 7": of ranks in ascending order, at least one.
std::string rank_list(std::span<const int> ranks);

}  // namespace rondo::detail
