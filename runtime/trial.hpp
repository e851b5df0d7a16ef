#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/clock.hpp"

namespace rondo::detail {

/// Which of two ways to do the same takes less, for calls that all members make in the same order. It is tried out:
/// kEach calls go either way, the members tell each other what those took, and all go the faster way for kKept calls.
/// Then all that begins anew, for a host may move a virtual machine's cores at any time.
///
/// Of a member's calls the shortest counts, as others come late to some; of the members the one for whom that is
/// longest.
class Trial {
 public:
  static constexpr int kEach = 3;
  static constexpr int kKept = 1000;
  /// Of the two ways, in picoseconds for a byte.
  using Times = std::array<std::uint32_t, 2>;

  /// Before the next call they tell each other what they `found`, and `settle` it by the longest.
  bool due() const noexcept { return !settled_ && calls_ == 2 * kEach; }
  const Times& found() const noexcept { return found_; }
  void settle(const Times& longest) noexcept {
    faster_ = longest[1] < longest[0] ? 1 : 0;
    settled_ = true;
    calls_ = 0;
  }

  /// That the next call goes: 0 or 1. The same on all members.
  int way() const noexcept { return settled_ ? faster_ : calls_ / kEach; }
  /// It has gone there, with so many bytes.
  void took(Duration time, std::size_t bytes) noexcept {
    constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
    const double of_byte =
        1000 * static_cast<double>(time.count()) / static_cast<double>(std::max<std::size_t>(bytes, 1));
    auto& least = found_[static_cast<std::size_t>(way())];
    least = std::min(least, static_cast<std::uint32_t>(std::clamp(of_byte, 0.0, kMost)));
    if (++calls_ == kKept) *this = Trial();
  }

 private:
  Times found_{std::numeric_limits<std::uint32_t>::max(), std::numeric_limits<std::uint32_t>::max()};
  int calls_ = 0;  ///< since this began, or since it was settled
  int faster_ = 0;
  bool settled_ = false;
};

}  // namespace rondo::detail
