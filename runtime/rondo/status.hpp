#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo {

/// Tells messages between the same two ranks apart. 32 bits; the largest value is `any_tag`.
struct Tag {
  constexpr Tag() = default;
  constexpr explicit Tag(std::uint32_t number) : value(number) {}
  std::uint32_t value = 0;
  friend constexpr bool operator==(Tag, Tag) = default;
};

/// In a receive or a probe: a message from any member of the communicator, or with any tag.
inline constexpr int any_source = -1;
inline constexpr Tag any_tag{0xffffffffu};

/// What is known of a received message.
struct Status {
  int source = any_source;  ///< rank in the communicator of the receive
  Tag tag;
  std::size_t bytes = 0;

  /// The number of whole elements of type T that came.
  template <typename T>
  constexpr std::size_t count() const noexcept {
    return bytes / sizeof(T);
  }
};

}  // namespace rondo
