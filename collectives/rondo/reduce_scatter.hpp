#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <rondo/collective_call.hpp>
#include <rondo/op.hpp>

namespace rondo {

/// Combines the vectors of all ranks, element by element; rank r gets block r of the result.
///
/// `in`: size * m elements, `out`: m elements; the same m, type, operator and options on every rank. `out` may be the
/// caller's own block of `in`; any other overlap is an error. Any m, 0 included. `op` as for all_reduce.
///
/// Cost, per rank, of m bytes a rank on P ranks: ring P-1 steps and (P-1)m bytes sent, for operators that commute;
/// linear 2 steps and Pm bytes. The tuning table chooses.
///
/// Throws Error: `invalid_argument` (sizes that do not fit) and `concurrent_use` at the call; `collective_mismatch`,
/// `peer_failed`, `timed_out` as the operation goes.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
void reduce_scatter(Communicator& communicator, In in, Out out, Op op, const Options& options = {}) {
  detail::run(communicator, detail::reducing<detail::value_of<Out>>(
                                detail::call_on(Collective::reduce_scatter, in, out, options), std::move(op)));
}

/// The same without waiting. Both buffers belong to the operation until the Work has completed.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, In in, Out out, Op op, const Options& options = {}) {
  return detail::start(communicator, detail::reducing<detail::value_of<Out>>(
                                         detail::call_on(Collective::reduce_scatter, in, out, options), std::move(op)));
}

/// In place: `inout` has size * m elements; the caller's own block becomes the result, the others are only read.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
void reduce_scatter(Communicator& communicator, Out inout, Op op, const Options& options = {}) {
  detail::run(communicator, detail::reducing<detail::value_of<Out>>(
                                detail::in_place_call(Collective::reduce_scatter, inout, options), std::move(op)));
}

/// The same without waiting. `inout` belongs to the operation until the Work has completed.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, Out inout, Op op, const Options& options = {}) {
  return detail::start(communicator,
                       detail::reducing<detail::value_of<Out>>(
                           detail::in_place_call(Collective::reduce_scatter, inout, options), std::move(op)));
}

/// Blocks of different lengths: rank r gets `counts[r]` elements. `counts` has an entry for each rank and is the same
/// on all; `in` has the sum of them.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
void reduce_scatter(Communicator& communicator, In in, Out out, std::span<const std::size_t> counts, Op op,
                    const Options& options = {}) {
  detail::run(
      communicator,
      detail::reducing<detail::value_of<Out>>(
          detail::by_counts(detail::call_on(Collective::reduce_scatter, in, out, options), counts), std::move(op)));
}

/// The same without waiting. `counts` may go once the call has returned.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, In in, Out out, std::span<const std::size_t> counts,
                                   Op op, const Options& options = {}) {
  return detail::start(
      communicator,
      detail::reducing<detail::value_of<Out>>(
          detail::by_counts(detail::call_on(Collective::reduce_scatter, in, out, options), counts), std::move(op)));
}

/// Blocks of different lengths, in place.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
void reduce_scatter(Communicator& communicator, Out inout, std::span<const std::size_t> counts, Op op,
                    const Options& options = {}) {
  detail::run(
      communicator,
      detail::reducing<detail::value_of<Out>>(
          detail::by_counts(detail::in_place_call(Collective::reduce_scatter, inout, options), counts), std::move(op)));
}

/// The same without waiting. `counts` may go once the call has returned.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, Out inout, std::span<const std::size_t> counts, Op op,
                                   const Options& options = {}) {
  return detail::start(
      communicator,
      detail::reducing<detail::value_of<Out>>(
          detail::by_counts(detail::in_place_call(Collective::reduce_scatter, inout, options), counts), std::move(op)));
}

}  // namespace rondo
