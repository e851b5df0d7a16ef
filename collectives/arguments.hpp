#pragma once

#include <chrono>
#include <cstddef>

#include <rondo/blocks.hpp>
#include <rondo/collective_call.hpp>

namespace rondo::detail {

/// A collective's buffers as its plan wants them, once the arguments have been found to fit.
struct Arguments {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool in_place = false;  ///< as Port::in_place means it
  Blocks blocks;
  Blocks recv_blocks;
  std::size_t count = 0;          ///< what every rank must agree on; see Call::count
  std::uint64_t counts_hash = 0;  ///< of the v-forms whose counts all ranks know
};

/// Whether a rank's input is read at all, and whether its output is written: for some collectives that is the root's.
bool gives(const CollectiveCall& call, int rank) noexcept;
bool gets(const CollectiveCall& call, int rank) noexcept;

/// Whether a rank has any elements in what is read or written: otherwise it cannot tell on which side they would be.
bool has_elements(const CollectiveCall& call, int rank) noexcept;

/// None, or above 0.
inline bool is_timeout(const Options& options) noexcept {
  return !options.timeout || *options.timeout > std::chrono::nanoseconds::zero();
}

/// Checks what one rank can know alone: the root, the sizes against each other, counts, overlap.
/// Throws Error{invalid_argument} that says which argument, what it is, what is wanted.
Arguments check_arguments(const CollectiveCall& call, int rank, int size);

}  // namespace rondo::detail
