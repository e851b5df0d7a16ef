#pragma once

#include <chrono>
#include <functional>
#include <span>

#include <rondo/all_reduce.hpp>
#include <rondo/communicator.hpp>

namespace rondo::testing {

/// Whether a stretch of some steps comes in which this rank does not do what it need not do in any: by chance it may,
/// as when somebody else keeps it from its core, but not always. `is_quiet` runs a stretch and tells; a collective
/// call, which goes on until all ranks have had theirs or have waited long enough.
inline bool comes_to_rest(Communicator& world, const std::function<bool()>& is_quiet) {
  constexpr int kAtOnce = 10;
  constexpr std::chrono::seconds kPatience{10};
  const auto until = std::chrono::steady_clock::now() + kPatience;
  bool quiet = false;
  for (int over = 0; over == 0;) {
    for (int stretch = 0; stretch < kAtOnce; ++stretch) quiet = is_quiet() || quiet;
    over = quiet || std::chrono::steady_clock::now() > until ? 1 : 0;
    all_reduce(world, std::span(&over, 1), min);
  }
  return quiet;
}

}  // namespace rondo::testing
