#include "tests/cuda/wire_text.hpp"

#include <charconv>

#include <fmt/format.h>

namespace rondo::testing {

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (; text.size() >= 2; text.remove_prefix(2)) {
    unsigned value = 0;
    std::from_chars(text.data(), text.data() + 2, value, 16);
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

}  // namespace rondo::testing
