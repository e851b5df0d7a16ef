#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/arena.hpp"
#include "runtime/clock.hpp"

namespace rondo::detail {

/// Where ranks wait on `cores` (below 0: not known) and may all use the cores `usable`: to which of these one of them
/// is to move, so that they are spread evenly. Nothing: it is to stay. All ranks have the same answer for each, and
/// need not talk about it.
std::optional<int> core_to_move_to(std::span<const int> cores, std::size_t rank, std::span<const int> usable);

/// Keeps ranks that share the cores of their host spread over them. While ranks yield to each other all the time the
/// system takes every core for busy, and leaves them where they are for a tenth of a second and longer; one rank more
/// on a core is one turn more in each short collective. Who is one too many moves to a core with room, and may be moved
/// on from there as before.
class CoreBalance {
 public:
  /// A look takes some nanoseconds for each rank, a move some microseconds.
  static constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);
  static constexpr Duration kMostBetweenLooks = std::chrono::seconds(1);
  /// A yield that took so long gave the core to somebody who computes. How these are spread is the system's business:
  /// the more often they are met, the longer nothing is done, until all are found spread evenly.
  static constexpr Duration kLongYield = std::chrono::milliseconds(1);

  /// This rank, which waits in the arena for others, has yielded its core for so long.
  void yielded(const Arena& arena, Time now, Duration took) {
    if (took > kLongYield) {
      between_looks_ = std::min(2 * between_looks_, kMostBetweenLooks);
    } else if (now < next_look_) {
      return;
    } else if (!moves(arena)) {
      between_looks_ = std::max(between_looks_ / 2, kBetweenLooks);
    }
    next_look_ = now + between_looks_;
  }

 private:
  bool moves(const Arena& arena);

  Time next_look_{};
  Duration between_looks_ = kBetweenLooks;
  std::vector<int> usable_;  ///< by this rank, as it was at the first look
  std::vector<int> cores_;   ///< of all
};

}  // namespace rondo::detail
