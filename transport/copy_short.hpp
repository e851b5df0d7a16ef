#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "transport/copy_long.hpp"

namespace rondo::detail {

/// memcpy of what is mostly a single number: without a call, then.
inline void copy_short(std::span<const std::byte> from, std::byte* to) noexcept {
  constexpr std::size_t kLong = 4096;
  if (from.size() == sizeof(double)) {
    std::memcpy(to, from.data(), sizeof(double));
  } else if (from.size() >= kLong) {
    copy_long(from, to);
  } else if (!from.empty()) {
    std::memcpy(to, from.data(), from.size());
  }
}

}  // namespace rondo::detail
