#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <rondo/collective_call.hpp>

namespace rondo {

/// Sends block r of `in` to rank r, and receives into block r of `out` what rank r sends.
///
/// `in` and `out`: size * m elements each, the same m, type and options on every rank. They are one buffer or do not
/// overlap. Any m, 0 included.
///
/// Cost, per rank, of m bytes a block on P ranks: pairwise P-1 steps and (P-1)m bytes sent, in place with size * m
/// elements of scratch and a copy; linear 2 steps and Pm bytes, P(P-1)m from rank 0, which has 2P(P-1)m of scratch.
///
/// Throws Error: `invalid_argument` (sizes that do not fit) and `concurrent_use` at the call; `collective_mismatch`,
/// `peer_failed`, `timed_out` as the operation goes.
template <detail::Output Out, detail::InputFor<Out> In>
void all_to_all(Communicator& communicator, In in, Out out, const Options& options = {}) {
  detail::run(communicator, detail::call_on(Collective::all_to_all, in, out, options));
}

/// The same without waiting. Both buffers belong to the operation until the Work has completed.
template <detail::Output Out, detail::InputFor<Out> In>
[[nodiscard]] Work iall_to_all(Communicator& communicator, In in, Out out, const Options& options = {}) {
  return detail::start(communicator, detail::call_on(Collective::all_to_all, in, out, options));
}

/// In place: `inout` has size * m elements; block r goes to rank r and is replaced by what comes from there.
template <detail::Output Out>
void all_to_all(Communicator& communicator, Out inout, const Options& options = {}) {
  detail::run(communicator, detail::in_place_call(Collective::all_to_all, inout, options));
}

/// The same without waiting. `inout` belongs to the operation until the Work has completed.
template <detail::Output Out>
[[nodiscard]] Work iall_to_all(Communicator& communicator, Out inout, const Options& options = {}) {
  return detail::start(communicator, detail::in_place_call(Collective::all_to_all, inout, options));
}

/// Blocks of different lengths, one after the other: `send_counts[r]` elements go to rank r and `recv_counts[r]` come
/// from there, which must be what rank r sends here. `in` and `out` have the sums of them and do not overlap.
template <detail::Output Out, detail::InputFor<Out> In>
void all_to_all(Communicator& communicator, In in, Out out, std::span<const std::size_t> send_counts,
                std::span<const std::size_t> recv_counts, const Options& options = {}) {
  detail::run(communicator,
              detail::by_counts(detail::call_on(Collective::all_to_all, in, out, options), send_counts, recv_counts));
}

/// The same without waiting. The counts may go once the call has returned.
template <detail::Output Out, detail::InputFor<Out> In>
[[nodiscard]] Work iall_to_all(Communicator& communicator, In in, Out out, std::span<const std::size_t> send_counts,
                               std::span<const std::size_t> recv_counts, const Options& options = {}) {
  return detail::start(communicator, detail::by_counts(detail::call_on(Collective::all_to_all, in, out, options),
                                                       send_counts, recv_counts));
}

}  // namespace rondo
