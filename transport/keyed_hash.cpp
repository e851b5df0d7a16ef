#include "transport/keyed_hash.hpp"

#include <string.h>

#include <algorithm>
#include <initializer_list>

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace rondo::detail {
namespace {

constexpr std::size_t kBlockBytes = SHA256_CBLOCK;

Hash hash_of(std::initializer_list<std::span<const std::byte>> parts) {
  SHA256_CTX context;
  SHA256_Init(&context);
  for (const auto& part : parts) SHA256_Update(&context, part.data(), part.size());
  Hash hash{};
  SHA256_Final(hash.data(), &context);
  ::explicit_bzero(&context, sizeof context);
  return hash;
}

}  // namespace

Hash hash(std::span<const std::byte> text) { return hash_of({text}); }

Hash keyed_hash(std::span<const std::byte> key, std::span<const std::byte> text) {
  Hash short_key{};
  if (key.size() > kBlockBytes) {
    short_key = hash(key);
    key = std::as_bytes(std::span(short_key));
  }
  const auto padded_key = [&key](std::byte padding) {
    std::array<std::byte, kBlockBytes> block;
    block.fill(padding);
    std::transform(key.begin(), key.end(), block.begin(), [&](std::byte byte) { return byte ^ padding; });
    return block;
  };
  auto inner_key = padded_key(std::byte{0x36}), outer_key = padded_key(std::byte{0x5c});
  const Hash inner = hash_of({inner_key, text});
  const Hash outer = hash_of({outer_key, std::as_bytes(std::span(inner))});
  ::explicit_bzero(inner_key.data(), inner_key.size());
  ::explicit_bzero(outer_key.data(), outer_key.size());
  return outer;
}

bool same(const Hash& left, const Hash& right) noexcept {
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace rondo::detail
