#pragma once

#include <cstddef>
#include <vector>

namespace rondo::testing {

/// The vector of `rank`, of floats whose sum depends on the order in which they are added.
inline std::vector<float> harmonic(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = 1.0F / static_cast<float>(i + 1 + 7 * static_cast<std::size_t>(rank));
  return data;
}

/// Elements: long enough to be read where they are, whatever the operation.
constexpr std::size_t kBlock = 40'001;

}  // namespace rondo::testing
