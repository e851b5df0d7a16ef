#pragma once

#include <algorithm>
#include <cstddef>

#include <rondo/blocks.hpp>

#include "collectives/direct_port.hpp"

namespace rondo::detail {

/// How ranks share out what is to be computed of `count` elements in a step: a slice for each. With a core for each
/// rank, each does its own. Where ranks share cores, everybody would have to wait until each had been on a core once
/// more; so whoever runs claims slices, its own first, and who does not run has none, unless it lost its core in the
/// middle of one.
class SharedWork {
 public:
  SharedWork(const DirectPort& port, std::size_t count)
      : slices_(Blocks::even(count, port.size())),
        claimed_(port.crowded() && slices_.largest() * port.element_bytes() <= most_claimed(port.size())) {}

  /// Anybody may do any slice; if not, everybody does its own.
  bool claimed() const noexcept { return claimed_; }
  const Blocks& slices() const noexcept { return slices_; }

  /// After all have entered the step: does what there is for this rank to do, by `compute(slice)`.
  template <typename Compute>
  void run(DirectPort& port, const DirectPort::Step& step, Compute compute) const {
    for (int turn = 0; turn < (claimed_ ? port.size() : 1); ++turn) {
      const int of = (port.rank() + turn) % port.size();
      if (claimed_ && !port.claim(step, of)) continue;
      compute(slices_.in(Buffer::output, of));
      port.finish(step, of);
    }
    port.wake_sleepers();
  }

 private:
  // Bytes of a slice: the more ranks share a core, the more turns on it are saved. Longer slices are combined sooner by
  // their owners, whose caches have more of them, and a rank that still has its slice to combine keeps the core busy
  // while another waits. (Measured with 4 and 8 ranks on 2 cores.)
  static std::size_t most_claimed(int ranks) noexcept {
    return static_cast<std::size_t>(std::max(ranks - 2, 0)) * 1536;
  }

  Blocks slices_;
  bool claimed_;
};

}  // namespace rondo::detail
