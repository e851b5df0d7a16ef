#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <rondo/collective_call.hpp>
#include <rondo/op.hpp>

namespace rondo {

/// Combines the vectors of all ranks, element by element; every rank gets the result, the same bits everywhere.
///
/// `inout`: `count` elements, the same count, type, operator and options on every rank. Any count, 0 included.
/// `op`: a predefined operator or an associative callable `T(T, T)` (see `ReduceOp`). Operands of one that does not
/// commute (see `commutative`) are combined in rank order.
///
/// Cost, per rank, of n bytes on P ranks: ring 2(P-1) steps and 2n(P-1)/P bytes sent; tree 2 log2(P) steps and n
/// log2(P) bytes from rank 0, pipelined; recursive doubling log2(P) steps and n log2(P) bytes; double_star 3 steps and
/// nP/2 bytes from each of two ranks. The tuning table chooses.
///
/// Throws Error: `invalid_argument` and `concurrent_use` at the call; `collective_mismatch`, `peer_failed`, `timed_out`
/// as the operation goes. After a failure the contents of the output are unspecified, and the communicator is unusable.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
void all_reduce(Communicator& communicator, Out inout, Op op, const Options& options = {}) {
  detail::run(communicator, detail::reducing<detail::value_of<Out>>(
                                detail::in_place_call(Collective::all_reduce, inout, options), std::move(op)));
}

/// The same without waiting. `inout` belongs to the operation until the Work has completed.
template <detail::Output Out, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work iall_reduce(Communicator& communicator, Out inout, Op op, const Options& options = {}) {
  return detail::start(communicator, detail::reducing<detail::value_of<Out>>(
                                         detail::in_place_call(Collective::all_reduce, inout, options), std::move(op)));
}

/// From `in` to `out`, which have the same number of elements and are one buffer or do not overlap.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
void all_reduce(Communicator& communicator, In in, Out out, Op op, const Options& options = {}) {
  detail::run(communicator, detail::reducing<detail::value_of<Out>>(
                                detail::call_on(Collective::all_reduce, in, out, options), std::move(op)));
}

/// The same without waiting. Both buffers belong to the operation until the Work has completed.
template <detail::Output Out, detail::InputFor<Out> In, ReduceOp<detail::value_of<Out>> Op>
[[nodiscard]] Work iall_reduce(Communicator& communicator, In in, Out out, Op op, const Options& options = {}) {
  return detail::start(communicator, detail::reducing<detail::value_of<Out>>(
                                         detail::call_on(Collective::all_reduce, in, out, options), std::move(op)));
}

}  // namespace rondo
