#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <rondo/collective_call.hpp>

namespace rondo {

/// Collects the vectors of all ranks on every rank, in rank order.
///
/// `in`: m elements, the same m, type and options on every rank. `out`: size * m elements. `in` may be the caller's own
/// block of `out`; any other overlap is an error. Any m, 0 included.
///
/// Cost, per rank, of m bytes a rank on P ranks: ring P-1 steps and (P-1)m bytes sent; Bruck log2(P) steps and (P-1)m
/// bytes, with size * m elements of scratch; linear 2 steps and m bytes, P(P-1)m from rank 0.
///
/// Throws Error: `invalid_argument` (sizes that do not fit) and `concurrent_use` at the call; `collective_mismatch`,
/// `peer_failed`, `timed_out` as the operation goes.
template <detail::Output Out, detail::InputFor<Out> In>
void all_gather(Communicator& communicator, In in, Out out, const Options& options = {}) {
  detail::run(communicator, detail::call_on(Collective::all_gather, in, out, options));
}

/// The same without waiting. Both buffers belong to the operation until the Work has completed.
template <detail::Output Out, detail::InputFor<Out> In>
[[nodiscard]] Work iall_gather(Communicator& communicator, In in, Out out, const Options& options = {}) {
  return detail::start(communicator, detail::call_on(Collective::all_gather, in, out, options));
}

/// In place: `inout` has size * m elements, of which the caller's own block is set.
template <detail::Output Out>
void all_gather(Communicator& communicator, Out inout, const Options& options = {}) {
  detail::run(communicator, detail::in_place_call(Collective::all_gather, inout, options));
}

/// The same without waiting. `inout` belongs to the operation until the Work has completed.
template <detail::Output Out>
[[nodiscard]] Work iall_gather(Communicator& communicator, Out inout, const Options& options = {}) {
  return detail::start(communicator, detail::in_place_call(Collective::all_gather, inout, options));
}

/// Blocks of different lengths: rank r gives `counts[r]` elements. `counts` has an entry for each rank and is the same
/// on all; `out` has the sum of them.
template <detail::Output Out, detail::InputFor<Out> In>
void all_gather(Communicator& communicator, In in, Out out, std::span<const std::size_t> counts,
                const Options& options = {}) {
  detail::run(communicator, detail::by_counts(detail::call_on(Collective::all_gather, in, out, options), counts));
}

/// The same without waiting. `counts` may go once the call has returned.
template <detail::Output Out, detail::InputFor<Out> In>
[[nodiscard]] Work iall_gather(Communicator& communicator, In in, Out out, std::span<const std::size_t> counts,
                               const Options& options = {}) {
  return detail::start(communicator,
                       detail::by_counts(detail::call_on(Collective::all_gather, in, out, options), counts));
}

/// Blocks of different lengths, in place.
template <detail::Output Out>
void all_gather(Communicator& communicator, Out inout, std::span<const std::size_t> counts,
                const Options& options = {}) {
  detail::run(communicator, detail::by_counts(detail::in_place_call(Collective::all_gather, inout, options), counts));
}

/// The same without waiting. `counts` may go once the call has returned.
template <detail::Output Out>
[[nodiscard]] Work iall_gather(Communicator& communicator, Out inout, std::span<const std::size_t> counts,
                               const Options& options = {}) {
  return detail::start(communicator,
                       detail::by_counts(detail::in_place_call(Collective::all_gather, inout, options), counts));
}

}  // namespace rondo
