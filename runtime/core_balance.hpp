#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/arena.hpp"
#include "runtime/clock.hpp"
#include "runtime/cores.hpp"
#include "runtime/idle.hpp"

namespace rondo::detail {

/// Where ranks wait on `cores` (below 0: not known) and may all use the cores `usable`: to which of these one of them
/// is to move, so that they are spread evenly. Nothing: it is to stay. The same ranks on the same cores have one answer
/// for each, so that they need not talk about it.
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

  using Move = void (*)(int core);
  /// On the cores that this rank may use now.
  explicit CoreBalance(int members, std::vector<int> usable = own_cores(), Move move = &move_to_core)
      : usable_(std::move(usable)), move_(move), cores_(static_cast<std::size_t>(members)) {}

  /// This rank, which waits in the arena for others, has yielded its core for so long. How those are spread who compute
  /// is the system's business: the more often they are met, the longer nothing is done, until all are found spread
  /// evenly.
  void yielded(const Arena& arena, Time now, Duration took) {
    if (took > IdleHabits::kLongYield) {
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

  const std::vector<int> usable_;
  const Move move_;
  std::vector<int> cores_;  ///< of all members
  Time next_look_{};
  Duration between_looks_ = kBetweenLooks;
};

}  // namespace rondo::detail
