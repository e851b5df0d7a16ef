#pragma once

#include <algorithm>

namespace rondo::testing {

/// How often to do what goes wrong by chance, if at all: a fourth under a sanitizer, which sees what nearly went wrong.
template <typename Number>
constexpr Number rounds(Number usual) {
  return SANITIZED ? std::max(usual / 4, Number{1}) : usual;
}

}  // namespace rondo::testing
