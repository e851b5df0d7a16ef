#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <rondo/collective_call.hpp>
#include <rondo/op.hpp>

namespace rondo {

/// Combines the vectors of all ranks, element by element; `root` gets the result.
///
/// `inout`: `count` elements, the same count, type, operator, root and options on every rank. At the root it becomes
/// the result; elsewhere it is only read. Any count, 0 included. `op` as for all_reduce.
///
/// Cost, per rank, of n bytes on P ranks: tree log2(P) steps and n bytes sent, pipelined; ring P steps and n bytes,
/// for long vectors and operators that commute.
///
/// Throws Error: `invalid_argument` (a root that is no rank too) and `concurrent_use` at the call;
/// `collective_mismatch`, `peer_failed`, `timed_out` as the operation goes.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
void reduce(Communicator& communicator, Out inout, Op op, int root, const Options& options = {}) {
  detail::run(communicator,
              detail::reducing<detail::value_of<Out>>(
                  detail::rooted(detail::in_place_call(Collective::reduce, inout, options), root), std::move(op)));
}

/// The same without waiting. `inout` belongs to the operation until the Work has completed.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work ireduce(Communicator& communicator, Out inout, Op op, int root, const Options& options = {}) {
  return detail::start(
      communicator,
      detail::reducing<detail::value_of<Out>>(
          detail::rooted(detail::in_place_call(Collective::reduce, inout, options), root), std::move(op)));
}

/// From `in` to `out`. At the root they have the same number of elements and are one buffer or do not overlap;
/// elsewhere `out` is not used and may be empty.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
void reduce(Communicator& communicator, In in, Out out, Op op, int root, const Options& options = {}) {
  detail::run(communicator,
              detail::reducing<detail::value_of<Out>>(
                  detail::rooted(detail::call_on(Collective::reduce, in, out, options), root), std::move(op)));
}

/// The same without waiting. Both buffers belong to the operation until the Work has completed.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work ireduce(Communicator& communicator, In in, Out out, Op op, int root, const Options& options = {}) {
  return detail::start(communicator,
                       detail::reducing<detail::value_of<Out>>(
                           detail::rooted(detail::call_on(Collective::reduce, in, out, options), root), std::move(op)));
}

}  // namespace rondo
