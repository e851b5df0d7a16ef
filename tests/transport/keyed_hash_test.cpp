#include "transport/keyed_hash.hpp"

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tests/support/catch.hpp"

using rondo::detail::Hash;

namespace {

std::string hex(const Hash& hash) {
  std::string text;
  for (const auto byte : hash) text += fmt::format("{:02x}", byte);
  return text;
}

std::string hash(std::string_view text) { return hex(rondo::detail::hash(std::as_bytes(std::span(text)))); }

std::string keyed_hash(std::string_view key, std::string_view text) {
  return hex(rondo::detail::keyed_hash(std::as_bytes(std::span(key)), std::as_bytes(std::span(text))));
}

}  // namespace

TEST_CASE("hashes are those of SHA-256", "[transport][keyed_hash]") {
  CHECK(hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("keyed hashes are those of HMAC-SHA-256 by RFC 4231", "[transport][keyed_hash]") {
  CHECK(keyed_hash(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(keyed_hash("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  // A key that is longer than a block.
  CHECK(keyed_hash(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("hashes are the same when all of them is", "[transport][keyed_hash]") {
  Hash left{}, right{};
  CHECK(rondo::detail::same(left, right));
  right.back() = 1;
  CHECK_FALSE(rondo::detail::same(left, right));
}
