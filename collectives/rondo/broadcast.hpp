#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <rondo/collective_call.hpp>

namespace rondo {

/// Copies the vector of `root` to every rank.
///
/// `data`: `count` elements, the same count, type, root and options on every rank; read at the root, written
/// elsewhere. Any count, 0 included.
///
/// Cost, per rank, of n bytes on P ranks: tree log2(P) steps and up to n log2(P) bytes sent by the root; chain,
/// pipelined in chunks of c bytes, P-2+n/c steps and n bytes sent by each rank but the last.
///
/// Throws Error: `invalid_argument` (a root that is no rank too) and `concurrent_use` at the call;
/// `collective_mismatch`, `peer_failed`, `timed_out` as the operation goes.
template <detail::Output Out>
void broadcast(Communicator& communicator, Out data, int root, const Options& options = {}) {
  detail::run(communicator, detail::rooted(detail::in_place_call(Collective::broadcast, data, options), root));
}

/// The same without waiting. `data` belongs to the operation until the Work has completed.
template <detail::Output Out>
[[nodiscard]] Work ibroadcast(Communicator& communicator, Out data, int root, const Options& options = {}) {
  return detail::start(communicator, detail::rooted(detail::in_place_call(Collective::broadcast, data, options), root));
}

}  // namespace rondo
