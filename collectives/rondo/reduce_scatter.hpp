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
/// Cost, per rank, of m bytes a rank on P ranks: ring P-1 steps and (P-1)m bytes sent, for operators that commute.
///
/// Throws Error: `invalid_argument` (sizes that do not fit) and `concurrent_use` at the call; `collective_mismatch`,
/// `peer_failed`, `timed_out` as the operation goes.
template <Element T, std::size_t M, detail::InputOf<T> In, std::size_t N, ReduceOp<T> Op>
void reduce_scatter(Communicator& communicator, std::span<In, N> in, std::span<T, M> out, Op op,
                    const Options& options = {}) {
  detail::run(communicator,
              detail::reducing<T>(detail::call_on<T>(Collective::reduce_scatter, in, out, options), std::move(op)));
}

/// The same without waiting. Both buffers belong to the operation until the Work has completed.
template <Element T, std::size_t M, detail::InputOf<T> In, std::size_t N, ReduceOp<T> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, std::span<In, N> in, std::span<T, M> out, Op op,
                                   const Options& options = {}) {
  return detail::start(
      communicator,
      detail::reducing<T>(detail::call_on<T>(Collective::reduce_scatter, in, out, options), std::move(op)));
}

/// In place: `inout` has size * m elements; the caller's own block becomes the result, the others are only read.
template <Element T, std::size_t N, ReduceOp<T> Op>
void reduce_scatter(Communicator& communicator, std::span<T, N> inout, Op op, const Options& options = {}) {
  detail::run(communicator,
              detail::reducing<T>(detail::in_place_call<T>(Collective::reduce_scatter, inout, options), std::move(op)));
}

/// The same without waiting. `inout` belongs to the operation until the Work has completed.
template <Element T, std::size_t N, ReduceOp<T> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, std::span<T, N> inout, Op op,
                                   const Options& options = {}) {
  return detail::start(
      communicator,
      detail::reducing<T>(detail::in_place_call<T>(Collective::reduce_scatter, inout, options), std::move(op)));
}

/// Blocks of different lengths: rank r gets `counts[r]` elements. `counts` has an entry for each rank and is the same
/// on all; `in` has the sum of them.
template <Element T, std::size_t M, detail::InputOf<T> In, std::size_t N, ReduceOp<T> Op>
void reduce_scatter(Communicator& communicator, std::span<In, N> in, std::span<T, M> out,
                    std::span<const std::size_t> counts, Op op, const Options& options = {}) {
  detail::run(
      communicator,
      detail::reducing<T>(detail::by_counts(detail::call_on<T>(Collective::reduce_scatter, in, out, options), counts),
                          std::move(op)));
}

/// The same without waiting. `counts` may go once the call has returned.
template <Element T, std::size_t M, detail::InputOf<T> In, std::size_t N, ReduceOp<T> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, std::span<In, N> in, std::span<T, M> out,
                                   std::span<const std::size_t> counts, Op op, const Options& options = {}) {
  return detail::start(
      communicator,
      detail::reducing<T>(detail::by_counts(detail::call_on<T>(Collective::reduce_scatter, in, out, options), counts),
                          std::move(op)));
}

/// Blocks of different lengths, in place.
template <Element T, std::size_t N, ReduceOp<T> Op>
void reduce_scatter(Communicator& communicator, std::span<T, N> inout, std::span<const std::size_t> counts, Op op,
                    const Options& options = {}) {
  detail::run(communicator,
              detail::reducing<T>(
                  detail::by_counts(detail::in_place_call<T>(Collective::reduce_scatter, inout, options), counts),
                  std::move(op)));
}

/// The same without waiting. `counts` may go once the call has returned.
template <Element T, std::size_t N, ReduceOp<T> Op>
[[nodiscard]] Work ireduce_scatter(Communicator& communicator, std::span<T, N> inout,
                                   std::span<const std::size_t> counts, Op op, const Options& options = {}) {
  return detail::start(
      communicator, detail::reducing<T>(
                        detail::by_counts(detail::in_place_call<T>(Collective::reduce_scatter, inout, options), counts),
                        std::move(op)));
}

}  // namespace rondo
