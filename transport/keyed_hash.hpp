#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo::detail {

using Hash = std::array<std::uint8_t, 32>;

/// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104) by functions of libcrypto that keep no state in the process: a
/// communicator may still be connecting while that ends. What replaces those since OpenSSL 3 looks for its
/// implementation in tables that are gone by then.
Hash hash(std::span<const std::byte> text);
Hash keyed_hash(std::span<const std::byte> key, std::span<const std::byte> text);
/// Takes as long for any two.
bool same(const Hash& left, const Hash& right) noexcept;

}  // namespace rondo::detail
