#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>

#include "runtime/clock.hpp"
#include "runtime/cores.hpp"

namespace rondo::detail {

/// The core on which a rank is to wait in the collectives of a communicator. `cores`: which it may use. `places`: of
/// the members that may use the same ones, among the `ranks` of the world that may; this rank's is the one at `own`.
/// The first ranks have the first core, and so on, each core as many as another, or one more; the world's, where they
/// are as even for the members: communicators that are at work at the same time, or in turn, then do not pull against
/// each other. Nothing where there are cores to spare: there the system knows better which of them to take.
std::optional<int> home_core(std::span<const int> cores, std::span<const int> places, std::size_t own, int ranks);

/// Which of so many cores the rank at a place has in a world of so many ranks.
std::size_t core_in_world(int place, int ranks, std::size_t cores);

/// Where ranks share cores, the one that this rank comes back to. While they yield to each other all the time the
/// system takes every core for busy: it moves them about, and leaves one core with more of them than another, which is
/// a turn more in each short collective, for a tenth of a second and longer. Ranks that follow each other have the same
/// core, so that halves of the ranks are halves of the cores.
class HomeCore {
 public:
  /// A look takes some nanoseconds, a move some microseconds.
  static constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);
  static constexpr Duration kMostBetweenLooks = std::chrono::seconds(1);

  using Where = int (*)();
  using Move = bool (*)(int core);
  explicit HomeCore(Where where = &::sched_getcpu, Move move = &move_to_core) : where_(where), move_(move) {}

  /// From now on, without a core to none.
  void belong_to(std::optional<int> core) noexcept { core_ = core; }

  /// A yield had somebody else go on, and was soon over: others wait on this core, too. Whether it has moved, or tried
  /// to, which takes time.
  bool found_waiting(Time now) {
    if (!core_ || now < next_look_) return false;
    const bool at_home = where_() == *core_;
    if (at_home) {
      between_looks_ = std::max(between_looks_ / 2, kBetweenLooks);
    } else if (!move_(*core_)) {
      between_looks_ = kMostBetweenLooks;  // this thread has been bound to others
    }
    next_look_ = now + between_looks_;
    return !at_home;
  }
  /// A yield took long: others compute on this core, and how those are spread is the system's business. The more often
  /// they are met, the longer nothing is done, until this rank is found at home.
  void found_computing(Time now) noexcept {
    between_looks_ = std::min(2 * between_looks_, kMostBetweenLooks);
    next_look_ = now + between_looks_;
  }
  void forget_computing() noexcept {
    between_looks_ = kBetweenLooks;
    next_look_ = {};
  }

 private:
  Where where_;
  Move move_;
  std::optional<int> core_;
  Time next_look_{};
  Duration between_looks_ = kBetweenLooks;
};

}  // namespace rondo::detail
