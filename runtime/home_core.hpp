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

/// The core for a rank that is the one at this place of `ranks` that share `cores`: the first ranks have the first
/// core, and so on, as many on each as on another, or one more. Nothing where there are cores to spare: there the
/// system knows better which of them to take.
inline std::optional<int> home_core(std::span<const int> cores, std::size_t place, std::size_t ranks) {
  if (cores.size() < 2 || ranks < cores.size()) return std::nullopt;
  return cores[place * cores.size() / ranks];
}

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

  /// A yield had somebody else go on, and was soon over: others wait on this core, too.
  void found_waiting(Time now) {
    if (!core_ || bound_ || now < next_look_) return;
    if (where_() == *core_) {
      between_looks_ = std::max(between_looks_ / 2, kBetweenLooks);
    } else {
      bound_ = !move_(*core_);
    }
    next_look_ = now + between_looks_;
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
  bool bound_ = false;  ///< to other cores, since they were agreed upon
  Time next_look_{};
  Duration between_looks_ = kBetweenLooks;
};

}  // namespace rondo::detail
