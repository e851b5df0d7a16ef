#pragma once

#include <rondo/task.hpp>

#include "runtime/operation.hpp"

namespace rondo::detail {

/// Makes the arena of the operation's communicator, as part of the first operation that can use one: the first member
/// creates the memory and passes it to the others, over links through shared memory; if any of them cannot map it, none
/// uses it. Afterwards `Commons::formed`.
Task form_arena(Operation& operation);

}  // namespace rondo::detail
