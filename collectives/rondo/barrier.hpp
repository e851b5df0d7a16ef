#pragma once

#include <rondo/collective_call.hpp>

namespace rondo {

/// Returns when every rank has called it.
///
/// Cost, per rank, on P ranks: dissemination, log2(P) steps of one message each; linear 2 steps, and 2(P-1) messages
/// at rank 0; double_star 3 steps, and P/2 messages sent by each of two ranks.
///
/// Throws Error: `concurrent_use` at the call; `collective_mismatch`, `peer_failed`, `timed_out` as it goes.
RONDO_EXPORT void barrier(Communicator& communicator, const Options& options = {});

/// The same without waiting: the Work completes when every rank has called it.
[[nodiscard]] RONDO_EXPORT Work ibarrier(Communicator& communicator, const Options& options = {});

}  // namespace rondo
