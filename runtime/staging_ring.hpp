#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo::detail {

/// Cuts pieces out of a region, one for each step at the most, round and round. Every member computes the same, so a
/// piece has the same place in the region of each. Pure arithmetic.
class StagingRing {
 public:
  struct Piece {
    std::size_t offset = 0;
    std::uint64_t after = 0;  ///< the last step that used any of these bytes: nobody may still be reading them
  };

  static constexpr std::size_t kAlignment = 64;

  /// What a piece takes.
  static constexpr std::size_t whole(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  explicit StagingRing(std::size_t bytes) : bytes_(bytes) {}

  std::size_t bytes() const noexcept { return bytes_; }

  /// The longest piece. A piece never overlaps that of the step before, wherever the ring comes round: while one is
  /// read the next can be filled.
  std::size_t most() const noexcept { return bytes_ / 3 / kAlignment * kAlignment; }

  /// At most `most()` bytes for `step`, which is later than every step before. The ring comes round early where it can
  /// after `lap` bytes.
  Piece take(std::size_t bytes, std::uint64_t step, std::size_t lap) noexcept {
    const std::size_t length = whole(bytes);
    if (head_ + length > bytes_ || (head_ + length > lap && last_ >= length)) {
      forget_until(bytes_);
      head_ = 0;
    }
    last_ = head_;
    Piece piece{head_, forget_until(head_ + length)};
    if (count_ == used_.size()) {
      // More short pieces than there is room to remember: the oldest two become one.
      used_[(first_ + 1) % used_.size()].begin = used_[first_].begin;
      drop_oldest();
    }
    used_[(first_ + count_) % used_.size()] = {head_, head_ + length, step};
    ++count_;
    head_ += length;
    return piece;
  }

 private:
  struct Used {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::uint64_t step = 0;
  };

  void drop_oldest() noexcept {
    first_ = (first_ + 1) % used_.size();
    --count_;
  }

  // The oldest pieces that begin between here and `end` are overwritten; returns the last step among them.
  std::uint64_t forget_until(std::size_t end) noexcept {
    std::uint64_t step = 0;
    while (count_ > 0 && used_[first_].begin >= head_ && used_[first_].begin < end) {
      step = used_[first_].step;
      drop_oldest();
    }
    overwritten_ = step > overwritten_ ? step : overwritten_;
    return overwritten_;
  }

  const std::size_t bytes_;
  std::size_t head_ = 0;
  std::size_t last_ = 0;  // where the last piece begins
  std::uint64_t overwritten_ = 0;
  std::array<Used, 16> used_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace rondo::detail
