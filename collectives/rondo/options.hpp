#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include <rondo/call.hpp>

namespace rondo {

/// What one call of a collective may ask for. All ranks ask for the same, but for the timeout.
///
///     all_reduce(world, std::span(x), sum, {.algorithm = Algorithm::ring, .chunk_bytes = 64 << 10});
struct Options {
  /// `automatic`: RONDO_ALGORITHM where it applies, then the tuning table.
  Algorithm algorithm = Algorithm::automatic;

  /// Size of the pieces in which a long vector is pipelined; 0: RONDO_CHUNK_BYTES, then the tuning table.
  std::size_t chunk_bytes = 0;

  /// How long the operation may take before it fails with `timed_out`; unset: RONDO_TIMEOUT.
  std::optional<std::chrono::nanoseconds> timeout = std::nullopt;

  /// Of reductions: every element is ((x0 + x1) + x2) + ..., in rank order, and float16 and bfloat16 are rounded after
  /// every step. The result is then a matter of the ranks' inputs alone, the same bits for every count, chunk size and
  /// transport. (Without it the bits are the same on all ranks and in every run.) On all calls: RONDO_DETERMINISTIC=1.
  bool deterministic = false;
};

}  // namespace rondo
