#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <rondo/collective_call.hpp>

namespace rondo {

/// Collects the vectors of all ranks at `root`, in rank order.
///
/// `in`: m elements, the same m, type, root and options on every rank. `out`: size * m elements at the root; elsewhere
/// not used, and may be empty. At the root `in` may be the root's own block of `out`, which then stays where it is; any
/// other overlap is an error. Any m, 0 included.
///
/// Cost, of m bytes a rank on P ranks: tree log2(P) steps and (P-1)m bytes received by the root, (P/2-1)m at most
/// relayed; linear P-1 receives at the root, nothing relayed.
///
/// Throws Error: `invalid_argument` (a root that is no rank, sizes that do not fit) and `concurrent_use` at the call;
/// `collective_mismatch`, `peer_failed`, `timed_out` as the operation goes.
template <detail::Output Out, detail::InputFor<Out> In>
void gather(Communicator& communicator, In in, Out out, int root, const Options& options = {}) {
  detail::run(communicator, detail::rooted(detail::call_on(Collective::gather, in, out, options), root));
}

/// The same without waiting. Both buffers belong to the operation until the Work has completed.
template <detail::Output Out, detail::InputFor<Out> In>
[[nodiscard]] Work igather(Communicator& communicator, In in, Out out, int root, const Options& options = {}) {
  return detail::start(communicator, detail::rooted(detail::call_on(Collective::gather, in, out, options), root));
}

/// Blocks of different lengths: rank r gives `counts[r]` elements. `counts` has an entry for each rank and is the same
/// on all; `out` has the sum of them at the root.
template <detail::Output Out, detail::InputFor<Out> In>
void gather(Communicator& communicator, In in, Out out, std::span<const std::size_t> counts, int root,
            const Options& options = {}) {
  detail::run(communicator,
              detail::by_counts(detail::rooted(detail::call_on(Collective::gather, in, out, options), root), counts));
}

/// The same without waiting. `counts` may go once the call has returned.
template <detail::Output Out, detail::InputFor<Out> In>
[[nodiscard]] Work igather(Communicator& communicator, In in, Out out, std::span<const std::size_t> counts, int root,
                           const Options& options = {}) {
  return detail::start(
      communicator,
      detail::by_counts(detail::rooted(detail::call_on(Collective::gather, in, out, options), root), counts));
}

}  // namespace rondo
