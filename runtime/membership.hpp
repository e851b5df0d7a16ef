#pragma once

#include <span>

#include "runtime/engine.hpp"

namespace rondo::detail {

/// New communicators out of `parent`, agreed on by all its members in one small collective on it. nullptr: this rank is
/// no member. Throws what a collective throws, mismatched calls included.
Group* make_subgroup(Progress::Entry& entry, Group& parent, std::span<const int> ranks);
Group* split_group(Progress::Entry& entry, Group& parent, int color, int key);

}  // namespace rondo::detail
