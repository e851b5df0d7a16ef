#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace rondo::detail {

/// The last caches before memory of this host's cores. By default one of the usual size, for all of them.
struct LastCaches {
  std::size_t bytes = std::size_t{32} << 20;  ///< of each
  int count = 1;

  /// Bytes that those of so many ranks hold, if no two ranks share one while there are others. Ranks that are bound to
  /// cores of one cache have less.
  std::size_t held_by(int ranks) const noexcept { return bytes * static_cast<std::size_t>(std::min(count, ranks)); }
};

/// As the system tells of its cores at `cpus`, taking all caches to be like that of the first core; where it tells
/// nothing, the default.
LastCaches last_caches(const std::string& cpus = "/sys/devices/system/cpu");

}  // namespace rondo::detail
