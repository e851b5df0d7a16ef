#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rondo::testing {

/// What the processes of a test tell each other: plain old data as hexadecimal digits.
std::string to_hex(std::span<const std::byte> bytes);
std::vector<std::byte> from_hex(std::string_view text);

template <typename T>
std::string to_text(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return to_hex(std::as_bytes(std::span(&value, 1)));
}

template <typename T>
T from_text(std::string_view text) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::vector<std::byte> bytes = from_hex(text);
  if (bytes.size() != sizeof(T)) throw std::runtime_error("got '" + std::string(text) + "', wanted other text");
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

}  // namespace rondo::testing
