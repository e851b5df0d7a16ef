#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo::detail {

/// Text that came from outside, fit for one line of a log or an error: at most `limit` bytes of it, the rest
/// cut, and whatever is not a printable character escaped.
std::string printable(std::string_view text, std::size_t limit = 256);

}  // namespace rondo::detail
