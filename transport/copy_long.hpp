#pragma once

#include <cstddef>
#include <span>

namespace rondo::detail {

/// memcpy, as quick as the processor has it for what another core has written, or reads next. At least a byte, and not
/// in place.
void copy_long(std::span<const std::byte> from, std::byte* to) noexcept;

/// The same by the processor's instruction that copies strings. False: it has none, or is known to be slow at it, and
/// nothing has been done.
bool copy_string(std::span<const std::byte> from, std::byte* to) noexcept;

}  // namespace rondo::detail
