#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "runtime/clock.hpp"

namespace rondo::detail {

/// Which of two ways to do the same takes less, for calls that all members make in the same order. It is tried out:
/// either way is gone for kInRow calls, then the members tell each other what those took; so again, up to kRows times,
/// unless one way took clearly less. All go the faster way for kKept calls. Then all that begins anew, for a host may
/// move a virtual machine's cores at any time.
///
/// The first call of a row is not counted: it finds in the caches what the other way has left there. Of a member's rows
/// the shortest counts, as others come late to some; of the members the one for whom that is longest.
class Trial {
 public:
  static constexpr int kInRow = 4;
  static constexpr int kRows = 3;
  static constexpr int kKept = 1000;
  /// A way is out if it takes so many times as long as the other, after the first row each way and after the second.
  static constexpr std::array<double, kRows - 1> kClear{1.25, 1.1};
  /// A row each way, in picoseconds for a byte.
  using Times = std::array<std::uint32_t, 2>;

  /// Before the next call they tell each other what they `found`, and go on by the longest.
  bool due() const noexcept { return !settled_ && calls_ == 2 * kInRow; }
  const Times& found() const noexcept { return found_; }
  void settle(const Times& longest) noexcept {
    const auto [least, most] = std::minmax(longest[0], longest[1]);
    faster_ = longest[1] < longest[0] ? 1 : 0;
    const auto row = static_cast<std::size_t>(rows_++);
    settled_ = row == kClear.size() || static_cast<double>(most) > kClear[row] * static_cast<double>(least);
    calls_ = 0;
  }

  /// That the next call goes: 0 or 1. The same on all members.
  int way() const noexcept { return settled_ ? faster_ : calls_ / kInRow; }
  /// It has gone there, with so many bytes.
  void took(Duration time, std::size_t bytes) noexcept {
    if (!settled_)
      count(1000 * static_cast<double>(time.count()) / static_cast<double>(std::max<std::size_t>(bytes, 1)));
    if (++calls_ == kKept) *this = Trial();
  }

 private:
  static constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

  void count(double of_byte) noexcept {
    const int place = calls_ % kInRow;
    row_ = place == 0 ? 0 : row_ + of_byte;
    if (place < kInRow - 1) return;
    auto& least = found_[static_cast<std::size_t>(way())];
    least = std::min(least, static_cast<std::uint32_t>(std::clamp(row_, 0.0, double{kMost})));
  }

  Times found_{kMost, kMost};
  double row_ = 0;
  int calls_ = 0;  ///< since they told each other, or since this began
  int rows_ = 0;   ///< each way
  int faster_ = 0;
  bool settled_ = false;
};

}  // namespace rondo::detail
