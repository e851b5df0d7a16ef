#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <rondo/export.hpp>

namespace rondo {

/// Bytes from "4096", "64K", "4M", "1G", "2T" (powers of 1024; lower case, and "KiB" or "KB", mean the same).
/// Throws Error{invalid_argument} that shows the text and what is wanted.
RONDO_EXPORT std::size_t parse_size(std::string_view text);

/// The shortest text that `parse_size` reads as exactly `bytes`: 65536 -> "64K", 1000 -> "1000".
RONDO_EXPORT std::string format_size(std::size_t bytes);

}  // namespace rondo
