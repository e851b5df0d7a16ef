#pragma once

#include <cstddef>

#include <rondo/task.hpp>

#include "runtime/operation.hpp"
#include "runtime/team.hpp"

namespace rondo::detail {

/// Makes the arena of the members on one host, as part of their communicator's first operation that can use one: the
/// first of them creates the memory and passes it to the others, over links through shared memory; if any of them
/// cannot map it, none uses it. Afterwards `Commons::formed`.
Task form_arena(Operation& operation, Team& team);

/// The region of each of so many members, of so many bytes that they may take together.
std::size_t staging_of_member(std::size_t staging_bytes, int members) noexcept;

}  // namespace rondo::detail
