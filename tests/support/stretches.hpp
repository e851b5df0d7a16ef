#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>

#include <rondo/all_reduce.hpp>
#include <rondo/communicator.hpp>

namespace rondo::testing {

/// Whether so many stretches of some steps come `in_a_row` in which this rank does not do what it need not do in any:
/// by chance it may, as when somebody else keeps it from its core, but not always. `is_quiet` runs a stretch and tells;
/// nothing: it was disturbed, and counts neither way. A collective call, which goes on until all ranks have had theirs
/// or have waited long enough.
inline bool comes_to_rest(Communicator& world, const std::function<std::optional<bool>()>& is_quiet, int in_a_row = 1) {
  constexpr int kAtOnce = 10;
  constexpr std::chrono::seconds kPatience{10};
  const auto until = std::chrono::steady_clock::now() + kPatience;
  int row = 0;
  for (int over = 0; over == 0;) {
    for (int stretch = 0; stretch < kAtOnce; ++stretch) {
      const std::optional<bool> quiet = is_quiet();
      if (quiet && row < in_a_row) row = *quiet ? row + 1 : 0;
    }
    over = row == in_a_row || std::chrono::steady_clock::now() > until ? 1 : 0;
    all_reduce(world, std::span(&over, 1), min);
  }
  return row == in_a_row;
}

}  // namespace rondo::testing
