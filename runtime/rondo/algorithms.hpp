#pragma once

#include <span>

#include <rondo/call.hpp>
#include <rondo/export.hpp>

namespace rondo {

/// Whether it combines elements.
constexpr bool reduces(Collective collective) noexcept {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

/// The algorithms of a collective that work by messages; the first is the one that always works.
RONDO_EXPORT std::span<const Algorithm> algorithms_of(Collective collective) noexcept;
/// Those that ranks which share memory have beside them.
RONDO_EXPORT std::span<const Algorithm> shared_algorithms_of(Collective collective) noexcept;
/// Of the second kind, whatever the collective; and `leader`, which is for devices alone.
constexpr bool shares_memory(Algorithm algorithm) noexcept {
  using enum Algorithm;
  return algorithm == direct || algorithm == sliced || algorithm == fetched || algorithm == adaptive ||
         algorithm == leader;
}
/// Whether ranks whose buffers lie on a device that they share have `leader` beside those.
RONDO_EXPORT bool has_leader(Collective collective) noexcept;
/// Whether ranks on several hosts have `two_level` beside those by messages.
RONDO_EXPORT bool has_two_levels(Collective collective) noexcept;

/// Whether it is an algorithm of the collective at all, for some ranks and some operator.
RONDO_EXPORT bool has_algorithm(Collective collective, Algorithm algorithm) noexcept;

}  // namespace rondo
