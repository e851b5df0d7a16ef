#pragma once

#include <cstddef>
#include <span>

#include <rondo/plan.hpp>
#include <rondo/task.hpp>

#include "collectives/direct_port.hpp"

namespace rondo::detail {

/// The collective of `plan`, by one of the four algorithms for ranks that share memory. P ranks, n bytes of the whole
/// vector, m of a rank's block.
///
/// `direct`: every rank lays out what others need of it, and takes what it needs of the others: one wait. A vector
/// longer than a step goes in windows; while a window is read the next is laid out.
///
///     accesses per rank    all_reduce (P + 3) n, broadcast 2n, all_gather 2m + 2(P-1)m, all_to_all 4(P-1)m, ...
///     limits               none: operands are combined in rank order
///
/// `fetched` (what is only moved): nothing is laid out. Readers fetch what they need out of its owner's memory, for
/// which the owner waits. Who cannot read it after all gets it as a message; where the system does not allow reading,
/// it is `direct`.
///
///     accesses per rank    broadcast n, all_gather 2m + 2(P-1)m, all_to_all 2(P-1)m, ...
///
/// `adaptive` (all_gather, all_to_all): `direct` or `fetched`, whichever takes less (`Trial`).
///
/// `sliced` (all_reduce, reduce): see `run_sliced`.
///
/// Where a collective touches clearly more than the caches hold, what a rank copies to its output goes past them; what
/// the system copies, or what is combined straight into an output, does not.
///
/// The sums are left folds in rank order, whatever the size, the window or the timing: the same bits on every rank, in
/// every run, by every algorithm here.
///
/// `begun`: what `run_at_once` has done of it.
Task run_direct(DirectPort& port, const Plan& plan, const DirectPort::Begun& begun = {});

/// Whether the arena is large enough for so many elements of this size, or counts: the same answer on every rank.
bool fits(const DirectPort& port, const Plan& plan) noexcept;

/// Blocks, or whole vectors, that a rank lays out in a window of `direct`.
std::size_t shares_laid_out(Collective collective, int ranks) noexcept;

/// From so many bytes on, of the vector or of the longest block, `direct` looks whether buffers are mapped
/// (`allocate`).
std::size_t least_mapped_bytes(Collective collective, bool crowded) noexcept;

/// The whole of a short `direct` collective (of 256 KiB at the most), if nobody is far behind: without a coroutine,
/// without a word to the engine. False: it has not been done, but for what `begun` says.
bool run_at_once(DirectPort& port, const Plan& plan, DirectPort::Begun& begun);

/// What one rank does in a short `direct` collective of even shares, worked out for buffers at these addresses.
struct Script {
  std::size_t most = 0;             ///< elements that a rank lays out at the most
  std::size_t touched = 0;          ///< see DirectPort::expect_to_touch; 0: too few
  bool worth_mapping = false;       ///< long enough for buffers that all map to be read where they are
  std::span<const std::byte> kept;  ///< what this rank copies for itself,
  std::byte* kept_in = nullptr;     ///< to here
  std::span<const std::byte> laid_out;
  std::size_t behind = 0;                      ///< from this byte on,
  std::span<const std::byte> laid_out_behind;  ///< the rest of it, where what lies between the two is for nobody else
  int first_source = 0;                        ///< the ranks that this one needs something of,
  int last_source = 0;                         ///< up to before this one
  std::size_t at = 0;                          ///< the byte of what they lay out where that begins
  const std::byte* own = nullptr;              ///< to be combined with that;
  std::size_t count = 0;                       ///< so many elements of it; 0: it is copied
  std::byte* into = nullptr;                   ///< the place for what comes of it; of copies, for the first rank's
  std::size_t bytes = 0;                       ///< of a copy
  std::size_t stride = 0;                      ///< to the next rank's place
};
Script script_of(DirectPort& port, const Plan& plan);

/// `run_at_once`, of a collective whose script is known.
bool repeat(DirectPort& port, const Script& script, DirectPort::Begun& begun);

}  // namespace rondo::detail
