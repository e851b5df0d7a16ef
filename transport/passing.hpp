#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "transport/descriptor.hpp"

namespace rondo::detail {

/// Writes `bytes`, few and never none, to a Unix socket, and with them a descriptor (-1: none). False: it did not go.
bool send_with_descriptor(const Descriptor& socket, std::span<const std::byte> bytes, int descriptor) noexcept;

/// What `recvmsg` returns, without blocking; and the descriptor that came with the bytes, if one did.
ssize_t receive_with_descriptor(const Descriptor& socket, std::span<std::byte> bytes, Descriptor& descriptor) noexcept;

}  // namespace rondo::detail
