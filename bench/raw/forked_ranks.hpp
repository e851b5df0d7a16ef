#pragma once

namespace rondo::bench {

/// Forks: the caller goes on as rank 0, its children, which end with it, return from here as the others. Throws
/// std::system_error.
int fork_ranks(int ranks);

/// Rank 0: waits for the children. True if all ended well.
bool join_ranks();

}  // namespace rondo::bench
